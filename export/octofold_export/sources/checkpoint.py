"""A checkpoint of ours: a policy network, or a value network, of a kind that has a hand-made form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from octofold_game.rules import afterstates
from octofold_training.checkpoints import Checkpoint, CheckpointError, load
from octofold_training.networks import count_weights

from octofold_export.checks.reference import PlainPolicy, PlainValue, torch_evaluation
from octofold_export.errors import ExportError
from octofold_export.graph.heads import TEMPERATURE, Evaluator, Head, PolicyHead, ValueHead
from octofold_export.handmade.floating import float_form, half_form
from octofold_export.handmade.weights import foldable
from octofold_export.precision.calibration import quantise
from octofold_export.sources.source import Boards, Source


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


def _card(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "architecture": checkpoint.architecture,
        "weights": count_weights(checkpoint.network),
        "checkpoint_sha256": checkpoint.sha256,
    }
