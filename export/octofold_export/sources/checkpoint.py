"""A checkpoint of ours: a policy network, or a value network, of a kind that has a hand-made form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from octofold_training.checkpoints import CheckpointError, load

from octofold_export.checks.reference import network_evaluation
from octofold_export.description.description import Answers, Description, Reads
from octofold_export.errors import ExportError
from octofold_export.graph.heads import Evaluator
from octofold_export.handmade.floating import float_form, half_form
from octofold_export.handmade.weights import foldable
from octofold_export.precision.calibration import quantise
from octofold_export.sources.source import Boards, Source
from octofold_export.sources.torch_network import TorchNetwork


def from_checkpoint(folder: Path) -> Source:
    """A policy network, or a value network: one whose architecture has `head` "value".

    Raises `ExportError` for a checkpoint that cannot be read or folded.
    """
    try:
        checkpoint = load(folder)
    except CheckpointError as error:
        raise ExportError(str(error)) from error
    architecture = checkpoint.architecture
    network = TorchNetwork(checkpoint.network, str(folder))
    form = foldable(checkpoint.network)
    description = one_hot_description(form.encoding.exponents, architecture.get("value_scale"))

    def quantized(views: Boards, error: Callable[[Evaluator], float]) -> Evaluator:
        return quantise(form, views, error)

    return Source(
        description=description,
        evaluate=network_evaluation(network, description),
        fp32=float_form(form),
        fp16=lambda: half_form(form),
        int8=quantized,
        architecture=architecture,
        weights=network.weights,
        checkpoint_sha256=checkpoint.sha256,
    )


def one_hot_description(exponents: int, value_scale: float | None = None) -> Description:
    """How all our own kinds read and answer: a policy, or afterstate values if there is a `value_scale`."""
    reads = Reads(kind="one_hot", layout="channels_first", planes=exponents)
    answers = Answers(kind="policy_logits")
    if value_scale is not None:
        answers = Answers(kind="afterstate_value", scale=value_scale)
    return Description(reads=reads, answers=answers, largest_exponent=exponents - 1)
