"""Converts the body of any network to 8 bits for CPUs, and to float16 for GPUs.

onnxruntime's static quantization makes the 8-bit form, with ranges measured on the calibration boards.
Activations are unsigned bytes, and weights are signed bytes with a scale for each output channel. Several
choices of activation ranges and operators are tried, and the caller selects the form closest to float32. The
last product stays in float32, because the choice of a move depends most on it.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from octofold_game.errors import first_line
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.onnx_model import ONNXModel
from onnxruntime.transformers.float16 import convert_float_to_float16

from octofold_export.errors import ExportError
from octofold_export.graph.sessions import new_session
from octofold_export.printing import quiet

_LARGEST = float(np.finfo(np.float16).max)
_PRODUCTS = ("Conv", "Gemm", "MatMul")
_QUANTIZABLE = (*_PRODUCTS, "Add", "Relu", "Reshape", "Transpose", "MaxPool", "Concat")
"""Operators to quantize: products, and operators between products that can compute with bytes."""
_BATCH = 64


class _Choice(NamedTuple):
    operators: tuple[str, ...]
    method: CalibrationMethod
    options: dict[str, Any]


_CHOICES = (
    _Choice(_QUANTIZABLE, CalibrationMethod.MinMax, {}),
    _Choice(_QUANTIZABLE, CalibrationMethod.Percentile, {"CalibPercentile": 99.999}),
    _Choice(_PRODUCTS, CalibrationMethod.MinMax, {}),
)


class _Inputs(CalibrationDataReader):  # type: ignore[misc]
    """Calibration batches of equal size, because onnxruntime concatenates the activations of all batches."""

    def __init__(self, name: str, inputs: NDArray[Any]) -> None:
        size = min(_BATCH, len(inputs))
        starts = range(0, len(inputs) - size + 1, size)
        self._batches = iter({name: inputs[first : first + size]} for first in starts)

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._batches, None)


def int8_bodies(body: onnx.ModelProto, inputs: NDArray[Any]) -> Iterator[onnx.ModelProto]:
    """Yield 8-bit forms of `body`, calibrated on `inputs`, which are encoded views of boards.

    Raises:
        ExportError: the network has no hidden matrix product or convolution.
    """
    products = [node.name for node in body.graph.node if node.op_type in _PRODUCTS]
    if len(products) <= len(body.graph.output):
        raise ExportError("the network has no hidden matrix product or convolution to quantize")
    for choice in _CHOICES:
        yield _quantized(body, inputs, choice, products[-len(body.graph.output) :])


def with_named_nodes(body: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of `body` whose nodes have names, so that quantization can exclude nodes by name."""
    copy = onnx.ModelProto.FromString(body.SerializeToString())
    for number, node in enumerate(copy.graph.node):
        node.name = f"{node.op_type}_{number}"
    return copy


def _quantized(
    body: onnx.ModelProto, inputs: NDArray[Any], choice: _Choice, excluded: Sequence[str]
) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder, quiet():
        file = Path(folder) / "quantized.onnx"
        given = Path(folder) / "body.onnx"
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


def check_float16_range(body: onnx.ModelProto, inputs: NDArray[Any]) -> None:
    """Raise `ExportError` if `body` fails on `inputs`, or computes a number that is too large for float16.

    Running the float16 graph on a CPU cannot show this, because onnxruntime computes it in float32 there.
    """
    (given,) = body.graph.input
    open_body = onnx.ModelProto.FromString(body.SerializeToString())
    names = [name for node in body.graph.node for name in node.output if name]
    del open_body.graph.output[:]
    open_body.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        session = new_session(open_body)
        computed = session.run(None, {given.name: inputs})
    except Exception as error:  # onnxruntime's exceptions have no other common base class
        raise ExportError(f"onnxruntime cannot run the network: {first_line(error)}") from error
    for name, values in zip([given.name, *names], [inputs, *computed], strict=True):
        if values.dtype.kind == "f":
            largest = np.abs(values[np.isfinite(values)]).max(initial=0)
            if largest > _LARGEST:
                raise ExportError(
                    f"numbers in {name!r} must be at most {_LARGEST:,.0f} for float16, got {largest:,.0f}"
                )


def float16_body(body: onnx.ModelProto) -> onnx.ModelProto:
    """Return `body` with weights and activations in float16; its input and output keep their types.

    Raises:
        ExportError: onnxruntime cannot convert `body`.
    """
    copy = onnx.ModelProto.FromString(body.SerializeToString())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about weights that are rounded to 0
            half: onnx.ModelProto = convert_float_to_float16(copy, keep_io_types=True)
        ONNXModel(half).topological_sort()  # the converter appends its casts at the end
    except Exception as error:  # the converter raises errors of unrelated classes
        raise ExportError(
            f"onnxruntime cannot convert the network to float16: {first_line(error)}"
        ) from error
    return half
