"""Converts any body to float16, for GPUs; its input and output keep their types."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from graphlib import TopologicalSorter
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.transformers.float16 import convert_float_to_float16

from octofold_export.errors import ExportError, first_line

_LARGEST = float(np.finfo(np.float16).max)


def check_range(body: onnx.ModelProto, inputs: NDArray[Any]) -> None:
    """Check that float16 can hold all that `body` computes from `inputs`.

    A CPU does not show it: onnxruntime computes float16 graphs in float32 there.

    Raises:
        ExportError: a number is too large; the message names it.
    """
    (given,) = body.graph.input
    open_body = onnx.ModelProto.FromString(body.SerializeToString())
    names = [name for node in body.graph.node for name in node.output if name]
    del open_body.graph.output[:]
    open_body.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors come as exceptions
    try:
        session = onnxruntime.InferenceSession(
            open_body.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        computed = session.run(None, {given.name: inputs})
    except Exception as error:  # onnxruntime's exceptions have no other base class
        raise ExportError(f"onnxruntime cannot run the network: {first_line(error)}") from error
    for name, values in zip([given.name, *names], [inputs, *computed], strict=True):
        if values.dtype.kind == "f":
            largest = np.abs(values[np.isfinite(values)]).max(initial=0)
            if largest > _LARGEST:
                raise ExportError(f"{name!r} reaches {largest:,.0f}, and float16 ends at {_LARGEST:,.0f}")


def half_body(body: onnx.ModelProto) -> onnx.ModelProto:
    """Convert weights and activations of `body` to float16.

    Raises:
        ExportError: onnxruntime cannot convert it.
    """
    copy = onnx.ModelProto.FromString(body.SerializeToString())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about weights that are rounded to 0
            half: onnx.ModelProto = convert_float_to_float16(copy, keep_io_types=True)
    except Exception as error:  # the converter may fail in any way
        raise ExportError(
            f"onnxruntime cannot convert the network to float16: {first_line(error)}"
        ) from error
    nodes = list(_sorted(half.graph.node))
    del half.graph.node[:]
    half.graph.node.extend(nodes)
    return half


def _sorted(nodes: Iterable[onnx.NodeProto]) -> Iterable[onnx.NodeProto]:
    """Copies of the nodes in topological order; the converter appends its casts at the end."""
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    makers = {output: place for place, node in enumerate(copies) for output in node.output}
    needs = {
        place: {makers[name] for name in node.input if name in makers} for place, node in enumerate(copies)
    }
    return (copies[place] for place in TopologicalSorter(needs).static_order())
