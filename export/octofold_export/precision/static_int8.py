"""Converts any body to 8 bits by onnxruntime's static quantization, calibrated on inputs from games.

Activations are unsigned bytes, and weights are signed bytes with a scale for each output channel. Several
choices of activation ranges and operators are tried, and the caller selects the form closest to float32. The
last product stays in float32, because the choice of a move depends most on it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

from octofold_export.errors import ExportError
from octofold_export.graph.weight_files import WeightFiles
from octofold_export.quiet import quiet

_PRODUCTS = ("Conv", "Gemm", "MatMul")
_FLOWING = (*_PRODUCTS, "Add", "Relu", "Reshape", "Transpose", "MaxPool", "Concat")
"""Operators that can also use bytes if they are between products in bytes."""
_BATCH = 64


class _Choice(NamedTuple):
    operators: tuple[str, ...]
    method: CalibrationMethod
    options: dict[str, Any]


_CHOICES = (
    _Choice(_FLOWING, CalibrationMethod.MinMax, {}),
    _Choice(_FLOWING, CalibrationMethod.Percentile, {"CalibPercentile": 99.999}),
    _Choice(_PRODUCTS, CalibrationMethod.MinMax, {}),
)


class _Inputs(CalibrationDataReader):  # type: ignore[misc]
    """Batches of one input, all of the same size: onnxruntime joins what it records of each."""

    def __init__(self, name: str, inputs: NDArray[Any]) -> None:
        size = min(_BATCH, len(inputs))
        starts = range(0, len(inputs) - size + 1, size)
        self._batches = iter({name: inputs[first : first + size]} for first in starts)

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._batches, None)


def quantized_bodies(
    body: onnx.ModelProto, inputs: NDArray[Any], files: WeightFiles | None = None
) -> Iterator[onnx.ModelProto]:
    """Make 8-bit forms of `body`, whose large tensors are in `files`, calibrated on `inputs`.

    Raises:
        ExportError: the body has no products.
    """
    products = [node.name for node in body.graph.node if node.op_type in _PRODUCTS]
    if len(products) <= len(body.graph.output):
        raise ExportError("the network has no hidden products to quantize")
    for choice in _CHOICES:
        yield _quantized(body, inputs, files, choice, products[-len(body.graph.output) :])


def named(body: onnx.ModelProto) -> onnx.ModelProto:
    """Name every node of `body`, so that nodes can be excluded by name."""
    copy = onnx.ModelProto.FromString(body.SerializeToString())
    for number, node in enumerate(copy.graph.node):
        node.name = f"{node.op_type}_{number}"
    return copy


def _quantized(
    body: onnx.ModelProto,
    inputs: NDArray[Any],
    files: WeightFiles | None,
    choice: _Choice,
    excluded: Sequence[str],
) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder, quiet():
        file = Path(folder) / "quantized.onnx"
        given = Path(folder) / "body.onnx" if files is None else files.as_file(body)
        onnx.save(body, given)
        quantize_static(
            given,
            file,
            _Inputs(body.graph.input[0].name, inputs),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=choice.operators,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=excluded,
            calibrate_method=choice.method,
            extra_options={"WeightSymmetric": True, "ActivationSymmetric": False, **choice.options},
        )
        return onnx.load(file)
