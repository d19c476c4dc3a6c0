"""What can be exported: a checkpoint of a policy or value network, or an n-tuple network.

A source is everything that the export needs to know of one, so that nothing else asks which kind it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import pack
from octofold_game.rules import afterstates
from octofold_players.ntuple import NTupleFileError, NTupleNetwork
from octofold_training.checkpoints import Checkpoint, CheckpointError, load
from octofold_training.networks import count_weights

from octofold_export.calibration import quantise
from octofold_export.errors import ExportError
from octofold_export.floating import float_form, half_form
from octofold_export.heads import TEMPERATURE, Evaluator, Head, PolicyHead, ValueHead
from octofold_export.pieces import Rule
from octofold_export.reference import (
    PlainHead,
    PlainPolicy,
    PlainValue,
    ntuple_evaluation,
    torch_evaluation,
)
from octofold_export.tables import TENSOR, TupleTables
from octofold_export.weights import foldable

_MOST_ENTRIES = 2**31  # their indices are 32-bit integers

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
    located: Callable[[bytes], dict[str, Any]] | None = None
    "fields of the card that say where numbers lie in the file of the float32 graph"
    action_values: Callable[[Boards], NDArray[np.float32]] | None = None
    "[N, 4], -inf where illegal: by the player itself, where there is a faster one than the plain form"


def from_checkpoint(folder: Path) -> Source:
    """A policy network, or a value network: one whose architecture has `head` "value".

    Raises `ExportError` for a checkpoint that cannot be read or folded.
    """
    try:
        checkpoint = load(folder)
    except CheckpointError as error:
        raise ExportError(str(error)) from error
    if checkpoint.architecture.get("head") == "value":
        return _value_network(checkpoint)
    network = foldable(checkpoint.network)

    def quantised(boards: Boards, error: Callable[[Head], float]) -> Head:
        return PolicyHead(quantise(network, boards, lambda form: error(PolicyHead(form))))

    return Source(
        head=PolicyHead(float_form(network)),
        plain=PlainPolicy(torch_evaluation(checkpoint.network, network.encoding.exponents)),
        largest_exponent=network.encoding.exponents - 1,
        card=_card(checkpoint),
        rule="vote",
        half=PolicyHead(half_form(network)),
        quantise=quantised,
    )


def _value_network(checkpoint: Checkpoint) -> Source:
    scale = checkpoint.architecture["value_scale"]
    network = foldable(checkpoint.network, scale)
    largest = network.encoding.exponents - 1

    def head(evaluator: Evaluator) -> Head:
        return ValueHead(evaluator, largest)

    def quantised(boards: Boards, error: Callable[[Head], float]) -> Head:
        after, _, legal = afterstates(boards)
        asked = after[legal & (after.max(axis=2) <= largest)]
        seen = np.random.default_rng(1).permutation(asked)[: len(boards)]
        return head(quantise(network, seen, lambda form: error(head(form))))

    return Source(
        head=head(float_form(network)),
        plain=PlainValue(torch_evaluation(checkpoint.network, network.encoding.exponents, scale), largest),
        largest_exponent=largest,
        card={**_card(checkpoint), "temperature": TEMPERATURE},
        rule="mean",
        half=head(half_form(network)),
        quantise=quantised,
    )


def from_ntuple(folder: Path) -> Source:
    """An n-tuple network as `NTupleNetwork.save` wrote it. Raises `ExportError` if it cannot be read."""
    try:
        network = NTupleNetwork.load(folder)
    except NTupleFileError as error:
        raise ExportError(str(error)) from error
    if not np.isfinite(network.values).all():
        raise ExportError(f"{folder}: the tables hold values that are not finite numbers")
    return ntuple_source(network)


def ntuple_source(network: NTupleNetwork) -> Source:
    """An n-tuple network whose values are finite numbers. Raises `ExportError` if it has too many of them."""
    if network.values.size > _MOST_ENTRIES:
        raise ExportError(f"the network has {network.values.size:,} values, at most {_MOST_ENTRIES:,} fit")
    largest = 15  # what a digit of the tables' indices can be
    return Source(
        head=ValueHead(TupleTables(network.tuples, network.values, network.stages), largest),
        plain=PlainValue(ntuple_evaluation(network), largest),
        largest_exponent=largest,
        card={
            "architecture": {"kind": "ntuple", "tuples": network.tuples, "stages": network.stages},
            "weights": network.values.size,
            "checkpoint_sha256": hashlib.sha256(network.values.data).hexdigest(),
            "temperature": TEMPERATURE,
        },
        rule="mean",
        fewest_symmetries=8,
        tensors={TENSOR: network.values},
        action_values=lambda boards: network.action_values(pack(boards)),
    )


def _card(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "architecture": checkpoint.architecture,
        "weights": count_weights(checkpoint.network),
        "checkpoint_sha256": checkpoint.sha256,
    }
