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
    """The input of the network, and the meaning of its answers."""
    evaluate: Evaluate
    """The network itself, whose answers every form must reproduce."""
    evaluate_value: Evaluate | None = None
    """The network's values of boards `[N, 1]`, in the unit of the output `value`; None without a value
    head."""
    fp32: GraphEvaluator
    """The network in a graph, in float32."""
    fp16: Callable[[], GraphEvaluator] | None = None
    """Makes the network in float16; None if it cannot be made."""
    int8: Quantize | None = None
    """Makes the network in 8 bits; None if it cannot be made."""
    architecture: dict[str, Any]
    """The kind and the sizes of the network, for the card."""
    weights: int
    """The number of trained values."""
    checkpoint_sha256: str
    """The SHA-256 of the trained weights."""
    fewest_symmetries: int = 1
    tensors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """Tensors to keep in files beside the graph."""
    locate_tables: Callable[[bytes], CompactTablesPlaces] | None = None
    """Finds compact tables in the file of the float32 graph; None if there are none."""
    action_values: Callable[[Boards], NDArray[np.float32]] | None = None
    """The player's values [N, 4], -inf where illegal; None if `evaluate` is as fast."""
    evidence: Evidence | None = None
    """The evidence of games for the description; None for our own networks."""

    @property
    def rule(self) -> Rule:
        """The decision rule that suits its answers."""
        return "vote" if self.description.answers.kind.startswith("policy") else "mean"
