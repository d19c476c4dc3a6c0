"""Makes a network's body from an ONNX model: one input, only used outputs, free batch size, folded constants.

These steps change only the format. `checks.gates` checks later that the graph answers like the network.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from octofold_game.errors import first_line
from onnx import helper, inliner, numpy_helper, version_converter

from octofold_export.errors import ExportError
from octofold_export.graph.builder import OPSET, keep_outputs
from octofold_export.graph.sessions import new_session

_BATCH = "N"
_LOWEST_IR_VERSION = 4
"""Lowest version of ONNX's file format in which constants need not be inputs."""
_OWN_DOMAINS = ("", "ai.onnx")
_FIXED = (
    "the graph works only for a fixed batch size; export the file with a free batch size, using "
    "dynamic_shapes or dynamic_axes"
)


def make_body(model: onnx.ModelProto, outputs: Sequence[str], example: NDArray[Any]) -> onnx.ModelProto:
    """Make the body of `model` with the given `outputs`, in this order; `example` `[3, ...]` is an input.

    Raises:
        ExportError: onnxruntime cannot load the model, its batch size is fixed, its answers are random or not
            finite, or its opset cannot be converted to `OPSET`.
    """
    body = (
        inliner.inline_local_functions(model)
        if model.functions
        else onnx.ModelProto.FromString(model.SerializeToString())
    )
    body.ir_version = max(body.ir_version, _LOWEST_IR_VERSION)
    by_name = {value.name: value for value in body.graph.output}
    keep_outputs(body.graph, [by_name[name] for name in outputs])
    _free_batch(body, example)
    body = _fold_constants(_convert_opset(body))
    _check_answers(body, example)
    return body


def loop_over_boards(single: onnx.ModelProto) -> onnx.ModelProto:
    """Make a model that runs `single` on each board of a batch.

    `single` takes one board without a batch dimension, and returns vectors.
    """
    inner = inliner.inline_local_functions(single) if single.functions else single
    (board,) = inner.graph.input
    names = [output.name for output in inner.graph.output]
    results = [f"{name}_of_all" for name in names]
    loop = helper.make_graph(
        inner.graph.node, "board", [board], [onnx.ValueInfoProto(name=name) for name in names]
    )
    scan = helper.make_node("Scan", ["boards_as_read"], results, body=loop, num_scan_inputs=1)
    declared = board.type.tensor_type
    sizes = [dim.dim_value for dim in declared.shape.dim]
    given = helper.make_tensor_value_info("boards_as_read", declared.elem_type, [_BATCH, *sizes])
    answers = [
        helper.make_tensor_value_info(result, output.type.tensor_type.elem_type, None)
        for result, output in zip(results, inner.graph.output, strict=True)
    ]
    graph = helper.make_graph([scan], inner.graph.name, [given], answers, inner.graph.initializer)
    return helper.make_model(graph, opset_imports=inner.opset_import, ir_version=inner.ir_version)


def _free_batch(body: onnx.ModelProto, example: NDArray[Any]) -> None:
    """Make the batch size free in the input, the outputs, and constant shapes that begin with it."""
    (given,) = body.graph.input
    declared = given.type.tensor_type.shape.dim
    size = declared[0].dim_value if declared else 0
    if size:
        _free_shapes(body.graph, size)
    del declared[:]
    for length in example.shape:
        declared.add(dim_value=length)
    declared[0].Clear()
    declared[0].dim_param = _BATCH
    # A `squeeze` removes the dimension of a batch of one, so an output may have any number.
    for result in body.graph.output:
        result.type.tensor_type.ClearField("shape")


def _free_shapes(graph: onnx.GraphProto, size: int) -> None:
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    for node in graph.node:
        target = constants.get(node.input[1]) if node.op_type in ("Reshape", "Expand") else None
        if target is None:
            continue
        values = numpy_helper.to_array(target).copy()
        if values[:1].tolist() != [size]:
            continue
        if node.op_type == "Expand":
            values[0] = 1
        else:  # in a Reshape, 0 keeps the size of the dimension
            values[0] = 0 if (values == -1).any() else -1
        target.CopyFrom(numpy_helper.from_array(values, target.name))


def _convert_opset(body: onnx.ModelProto) -> onnx.ModelProto:
    opsets = [entry.version for entry in body.opset_import if entry.domain in _OWN_DOMAINS]
    if not opsets:  # all operators belong to other domains
        body.opset_import.append(helper.make_opsetid("", OPSET))
    opset = max(opsets, default=OPSET)
    if opset >= OPSET:
        return body
    try:
        return version_converter.convert_version(body, OPSET)
    except Exception as error:  # the converter raises errors of unrelated classes
        raise ExportError(
            f"the graph has opset {opset} and cannot be converted to opset {OPSET}: {first_line(error)}"
        ) from error


def _fold_constants(body: onnx.ModelProto) -> onnx.ModelProto:
    """Fold constants, and merge batch norms into convolutions, leaving only standard ONNX operators."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(folder) / "optimized.onnx"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(file)
        try:
            new_session(body, options)
        except Exception as error:  # onnxruntime's exceptions have no other common base class
            raise ExportError(f"onnxruntime cannot load the network: {first_line(error)}") from error
        folded = onnx.load(file)
    domains = {node.domain for node in folded.graph.node}
    used = [entry for entry in folded.opset_import if entry.domain in _OWN_DOMAINS or entry.domain in domains]
    imports = [helper.make_opsetid(entry.domain, entry.version) for entry in used]
    del folded.opset_import[:]
    folded.opset_import.extend(imports)
    del folded.metadata_props[:]
    return folded


def _check_answers(body: onnx.ModelProto, example: NDArray[Any]) -> None:
    session = new_session(body)
    (given,) = session.get_inputs()

    def run(inputs: NDArray[Any]) -> NDArray[Any]:
        """Return all outputs in one array `[boards, numbers]`."""
        answers = session.run(None, {given.name: inputs})
        if any(answer.size % len(inputs) for answer in answers):
            raise ValueError("the outputs must have a row for each board")
        return np.concatenate([answer.reshape(len(inputs), -1) for answer in answers], axis=1)

    try:
        together, again = run(example), run(example)
        alone = [run(example[at : at + 1]) for at in range(len(example))]
    except Exception as error:  # onnxruntime's exceptions have no other common base class
        raise ExportError(f"{_FIXED}: {first_line(error)}") from error
    if not (together < np.inf).all():  # a network may mark illegal moves by -inf
        raise ExportError("the graph answers boards with numbers that are not finite")
    if not np.array_equal(together, again):
        raise ExportError(
            "the graph answers the same boards differently each time; remove its random operators, such as "
            "a dropout that is always on"
        )
    same_width = all(answer.shape[1:] == together.shape[1:] for answer in alone)
    fixed = "" if same_width else "the size of the output does not grow with the batch"
    if not fixed and not np.allclose(np.concatenate(alone), together, rtol=1e-3, atol=1e-3):
        fixed = "the answer to a board depends on the other boards of the batch"
    if fixed:
        raise ExportError(f"{_FIXED}: {fixed}")
