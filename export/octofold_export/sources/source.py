"""A trained player in the form that the export needs, independent of its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import CompactTablesPlaces, Evidence, Rule

from octofold_export.checks.reference import Evaluate
from octofold_export.description.description import Description
from octofold_export.graph.heads import GraphEvaluator

Boards = NDArray[np.uint8]
Quantize = Callable[[Boards, Callable[[GraphEvaluator], float]], GraphEvaluator]
"""Makes the 8-bit evaluator from positions `[N, 16]`, as the network reads them, and an error to minimize."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A trained player in the forms that are published and checked."""

    description: Description
    "what the network reads and what its answers mean"
    evaluate: Evaluate
    "the network itself: what every form must answer like"
    evaluate_value: Evaluate | None = None
    "the network's value of a board `[N, 1]`, in the unit of the output `value`; None: it has no value head"
    fp32: GraphEvaluator
    "the network in a graph, in float32"
    fp16: Callable[[], GraphEvaluator] | None = None
    "in float16; None if it has no such form"
    int8: Quantize | None = None
    "in 8 bits; None if it has no such form"
    architecture: dict[str, Any]
    "its kind and its sizes, for the card"
    weights: int
    "the number of trained values"
    checkpoint_sha256: str
    "of the trained weights"
    fewest_symmetries: int = 1
    tensors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    "kept in files beside the graph"
    locate_tables: Callable[[bytes], CompactTablesPlaces] | None = None
    "finds compact tables in the file of the float32 graph; None: it has none"
    action_values: Callable[[Boards], NDArray[np.float32]] | None = None
    "the player's own values [N, 4], -inf where illegal, if it computes them faster than `evaluate`"
    evidence: Evidence | None = None
    "what games showed of the description; None: it is one of our own networks"

    @property
    def rule(self) -> Rule:
        """The decision rule that suits its answers."""
        return "vote" if self.description.answers.kind.startswith("policy") else "mean"
