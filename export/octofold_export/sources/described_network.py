"""Makes a `Source` from any network that can be converted to ONNX, with the user's hints about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray
from octofold_game.contract.model import Evidence
from octofold_game.errors import first_line

from octofold_export.checks.reference import Evaluate, network_evaluation
from octofold_export.description.candidates import complete_without_games
from octofold_export.description.description import Description, encode
from octofold_export.description.hints import Hints
from octofold_export.description.network import Network
from octofold_export.errors import ExportError
from octofold_export.graph.encoded_body import EncodedBody
from octofold_export.graph.heads import GraphEvaluator
from octofold_export.precision.body_conversion import (
    check_float16_range,
    float16_body,
    int8_bodies,
    with_named_nodes,
)
from octofold_export.sources.onnx_file import read_onnx
from octofold_export.sources.source import Boards, Source

_CALIBRATION_DIVISOR = 2
"""Divisor of the number of calibration boards. Fewer boards are used, because onnxruntime keeps all
activations in memory."""
_EXAMPLES = np.random.default_rng(2).integers(0, 8, (3, 16)).astype(np.uint8)
_RANGE_BOARDS = 256
"""Number of random boards on which the range of float16 is checked."""


class TrainedNetwork(Network, Protocol):
    """A network that can be exported: it runs, and it can be converted to ONNX."""

    @property
    def weights(self) -> int:
        """Number of trained values."""

    @property
    def operators(self) -> str:
        """The operators or layers of the network, as text for the card."""

    def body(self, outputs: Sequence[str], example: NDArray[Any]) -> onnx.ModelProto:
        """Convert the network to an ONNX model with one input, the given `outputs`, and a free batch size.

        `example` `[3, ...]` is an input.

        Raises:
            ExportError: the network cannot be converted.
        """


Describe = Callable[[Hints, TrainedNetwork], tuple[Description, Evidence | None]]
"""A function that completes the user's hints. It returns the description, and the evidence for it or None."""


def describe_without_games(hints: Hints, network: TrainedNetwork) -> tuple[Description, Evidence | None]:
    """Complete the user's hints by `complete_without_games`; the evidence is None."""
    return complete_without_games(hints, network), None


def from_file(
    read: Callable[[Path], tuple[TrainedNetwork, str]],
    kind: str,
    file: Path,
    hints: Hints,
    describe: Describe = describe_without_games,
) -> Source:
    """Make a source from a file that contains a complete network.

    Raises:
        ExportError: the file cannot be used.
    """
    network, digest = read(file)
    return described_source(network, hints, {"kind": kind, "file": file.name}, digest, describe)


from_onnx = partial(from_file, read_onnx, "ONNX")


def described_source(
    network: TrainedNetwork,
    hints: Hints,
    architecture: dict[str, Any],
    digest: str,
    describe: Describe = describe_without_games,
) -> Source:
    """Make a source from a network and the user's `hints`, which `describe` completes.

    Raises:
        NoBatchError: the network needs single boards, or its answers depend on the batch.
        ExportError: the hints do not fit the network, or it cannot be converted to ONNX.
    """
    description, evidence = describe(hints, network)
    example = encode(description.reads, np.minimum(_EXAMPLES, description.largest_exponent))
    answers = description.answers
    output = answers.output or next(iter(network.run(example)))
    heads = [output] if answers.value is None else [output, answers.value]
    body = with_named_nodes(network.body(heads, example))

    boards = np.random.default_rng(3).integers(0, description.largest_exponent + 1, (_RANGE_BOARDS, 16))

    def half() -> GraphEvaluator:
        check_float16_range(body, encode(description.reads, boards.astype(np.uint8)))
        return EncodedBody(float16_body(body), description)

    def quantized(views: Boards, error: Callable[[GraphEvaluator], float]) -> GraphEvaluator:
        inputs = encode(description.reads, views[::_CALIBRATION_DIVISOR])
        try:
            forms = [EncodedBody(form, description) for form in int8_bodies(body, inputs)]
        except ExportError:
            raise
        except Exception as failure:  # onnxruntime's quantization may raise any exception
            raise ExportError(f"onnxruntime cannot quantize the network: {first_line(failure)}") from failure
        return min(forms, key=error)

    return Source(
        description=description,
        evaluate=network_evaluation(network, description),
        evaluate_value=_value_evaluation(network, description),
        fp32=EncodedBody(body, description),
        fp16=half,
        int8=quantized,
        architecture={**architecture, "operators": network.operators},
        weights=network.weights,
        checkpoint_sha256=digest,
        evidence=evidence,
    )


def _value_evaluation(network: Network, description: Description) -> Evaluate | None:
    answers = description.answers
    if answers.value is None:
        return None
    evaluate = network_evaluation(network, description, answers.value)
    return lambda views: answers.points * evaluate(views)
