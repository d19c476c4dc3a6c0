"""Converts any body to float16, for GPUs; its input and output keep their types."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from graphlib import TopologicalSorter

import onnx
from onnxruntime.transformers.float16 import convert_float_to_float16

from octofold_export.errors import ExportError, first_line


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
