"""A trained player with everything that its export needs, so that nothing else asks which kind it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octofold_export.checks.reference import PlainHead
from octofold_export.graph.decision import Rule
from octofold_export.graph.heads import Head

Boards = NDArray[np.uint8]
Quantise = Callable[[Boards, Callable[[Head], float]], Head]
"""Boards `[N, 16]` and what is to be small, to the head in 8 bits."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A trained player, in the forms that are published and checked."""

    head: Head
    "in float32"
    plain: PlainHead
    "what `head` must answer like"
    largest_exponent: int
    card: dict[str, Any]
    "the fields of the card that tell what it is and where it comes from"
    rule: Rule
    "the rule that suits it"
    fewest_symmetries: int = 1
    half: Head | None = None
    "`head` in float16; None: there is none"
    quantise: Quantise | None = None
    "None: it has no 8-bit form"
    tensors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    "kept in files beside the graph"
    action_values: Callable[[Boards], NDArray[np.float32]] | None = None
    "[N, 4], -inf where illegal: by the player itself, where there is a faster one than the plain form"
