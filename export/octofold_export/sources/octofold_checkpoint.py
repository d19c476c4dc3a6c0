"""Makes a `Source` from a checkpoint of Octofold, with a hand-made graph or with the network's own body."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from octofold_training.checkpoints import Checkpoint, CheckpointError, load
from octofold_training.networks.build import interface_of

from octofold_export.checks.reference import network_evaluation
from octofold_export.description.description import Answers, Description, Reads
from octofold_export.description.hints import Hints
from octofold_export.errors import ExportError
from octofold_export.graph.heads import GraphEvaluator
from octofold_export.handmade.layers import float16_network, float32_network
from octofold_export.handmade.weights import has_handmade_form, weights_of
from octofold_export.precision.int8_quantization import quantize_network, thin_for_convolutions
from octofold_export.sources.described_network import described_source
from octofold_export.sources.source import Boards, Source
from octofold_export.sources.torch_network import TorchNetwork


def from_checkpoint(folder: Path) -> Source:
    """Make a source from a checkpoint of any PyTorch network that Octofold trains.

    Raises:
        ExportError: the checkpoint cannot be read, or its network cannot be exported.
    """
    try:
        checkpoint = load(folder)
    except CheckpointError as error:
        raise ExportError(str(error)) from error
    architecture = checkpoint.architecture
    network = TorchNetwork(checkpoint.network, str(folder))
    if not has_handmade_form(checkpoint.network):
        return _with_own_body(checkpoint, network)
    form = weights_of(checkpoint.network)
    description = one_hot_description(form.encoding.exponents, architecture.get("value_scale"))

    def quantized(views: Boards, error: Callable[[GraphEvaluator], float]) -> GraphEvaluator:
        return quantize_network(form, thin_for_convolutions(form, views), error)

    return Source(
        description=description,
        evaluate=network_evaluation(network, description),
        fp32=float32_network(form),
        fp16=lambda: float16_network(form),
        int8=quantized,
        architecture=architecture,
        weights=network.weights,
        checkpoint_sha256=checkpoint.sha256,
    )


def _with_own_body(checkpoint: Checkpoint, network: TorchNetwork) -> Source:
    """Make a source with the network's own body; the checkpoint's architecture gives the description."""
    architecture = checkpoint.architecture
    interface = interface_of(checkpoint.network)
    hints = msgspec.convert(
        {
            "reads": {
                "kind": interface.reads,
                "layout": interface.layout,
                "type": "float32",
                "planes": architecture.get("exponents"),
            },
            "answers": {
                "kind": interface.answers if "head" not in architecture else "afterstate_value",
                "output": interface.output,
                "actions": interface.actions,
                "scale": architecture.get("value_scale"),
            },
        },
        Hints,
    )
    return described_source(network, hints, architecture, checkpoint.sha256)


def one_hot_description(exponents: int, value_scale: float | None = None) -> Description:
    """Return the description of a network that Octofold trains on one-hot cells.

    With a `value_scale`, the network gives afterstate values; otherwise it is a policy.
    """
    reads = Reads(kind="one_hot", layout="channels_first", planes=exponents)
    answers = Answers(kind="policy_logits")
    if value_scale is not None:
        answers = Answers(kind="afterstate_value", scale=value_scale)
    return Description(reads=reads, answers=answers, largest_exponent=exponents - 1)
