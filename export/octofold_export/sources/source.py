"""A trained network of any kind, in the form that the export needs."""

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
"""A function that makes the int8 evaluator from views `[N, 16]` of calibration boards and from a function
that returns the error to minimize."""
_LARGE_WEIGHTS = 50_000_000
"""Minimum number of weights of a large network. The int8 form of a large network is made only on request,
because quantization takes several times the network's memory. An export uses fewer boards for a large
network, because the network evaluates only about a hundred boards a second."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A trained network, with its forms for all precisions and what the checks of graphs need."""

    description: Description
    """The input and the output of the network."""
    evaluate: Evaluate
    """A function that runs the network itself; the checks compare graphs with its answers."""
    evaluate_value: Evaluate | None = None
    """A function that computes the values `[N, 1]` of boards, in the unit of the output `value`; None without
    a value head."""
    fp32: GraphEvaluator
    """The network as a part of a graph, in float32."""
    fp16: Callable[[], GraphEvaluator] | None = None
    """A function that makes the network in float16; None if that is impossible."""
    int8: Quantize | None = None
    """A function that makes the network in int8; None if that is impossible."""
    architecture: dict[str, Any]
    """The kind and the sizes of the network, for the card."""
    weights: int
    """The number of trained values."""
    checkpoint_sha256: str
    """The SHA-256 of the trained weights."""
    fewest_symmetries: int = 1
    """Minimum number of views; an n-tuple network needs all eight."""
    tensors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """Tensors by name that are published in files beside the graph."""
    locate_tables: Callable[[bytes], CompactTablesPlaces] | None = None
    """A function that finds compact tables in the bytes of the float32 graph; None if the graph has none."""
    action_values: Callable[[Boards], NDArray[np.float32]] | None = None
    """A function that computes the values `[N, 4]` of moves faster than `evaluate`, with -inf for illegal
    moves; None if the network has no such function."""
    evidence: Evidence | None = None
    """The scores of games that support the description; None without games, as for our own networks."""

    @property
    def is_large(self) -> bool:
        """Whether the network has at least `_LARGE_WEIGHTS` weights."""
        return self.weights >= _LARGE_WEIGHTS

    @property
    def rule(self) -> Rule:
        """The default decision rule: `vote` if the network is a policy, `mean` if it gives values."""
        return "vote" if self.description.answers.is_policy else "mean"
