"""A thin layer over onnx.helper to write a graph as a sequence of Python expressions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from octofold_game.contract.model import tensor_file
from onnx import compose, helper, numpy_helper

from octofold_export.errors import ExportError

OPSET = 18
"""ONNX opset of folded graphs, which onnxruntime 1.14 and later can read. A newer opset is used only if the
network's body needs one, because onnxruntime has no CUDA kernel for the ReduceMax of newer opsets."""
IR_VERSION = 8


class GraphBuilder:
    """A graph under construction: its constants and nodes.

    A method that adds a constant or a node returns the name of the new tensor.
    """

    def __init__(self, constants: Iterable[onnx.TensorProto] = ()) -> None:
        """Start with the `constants` of another graph, if any; new constants then get the prefix `own/`."""
        self._nodes: list[onnx.NodeProto] = []
        self._constants = {tensor.name: tensor for tensor in constants}
        self._own = "own/" if self._constants else ""
        self._external: list[onnx.TensorProto] = []
        self._names = set(self._constants)
        self._scope = ""
        self._opsets: dict[str, int] = {"": OPSET}
        self._ir_version = IR_VERSION

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """Store an array under `name`. Equal values under the same name are stored once."""
        array = np.ascontiguousarray(values).reshape(values.shape)
        return self._store(numpy_helper.from_array(array, name))

    def _store(self, tensor: onnx.TensorProto) -> str:
        if self._constants.get(tensor.name) != tensor:
            tensor.name = self._own + self._scope + tensor.name
        if tensor.name not in self._constants:
            self._claim(tensor.name)
            self._constants[tensor.name] = tensor
        elif self._constants[tensor.name] != tensor:
            raise ValueError(f"two constants have the name {tensor.name}")
        return str(tensor.name)

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Add the prefix `name/` to the names of nodes and new constants while the `with` block runs.

        If an equal constant exists without the prefix, no new constant is added.
        """
        self._scope = f"{name}/"
        try:
            yield
        finally:
            self._scope = ""

    def external(self, name: str, values: NDArray[np.float32]) -> str:
        """Add a large vector, whose values are in the external file `tensor_file(name)`.

        The model contains the digest of the vector, so that two models with different values differ.
        """
        self._claim(name)
        tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=values.shape)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        description = {
            "location": tensor_file(name),
            "offset": "0",
            "length": str(values.nbytes),
            "checksum": hashlib.sha1(values.data, usedforsecurity=False).hexdigest(),  # as ONNX specifies
        }
        for key, value in description.items():
            tensor.external_data.add(key=key, value=value)
        self._external.append(tensor)
        return name

    def integers(self, *values: int) -> str:
        """Store a small int64 vector, such as a shape; equal vectors are stored once."""
        return self.constant(f"ints_{'_'.join(map(str, values))}", np.array(values, np.int64))

    def add(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Append a node with one output; the node has the name of its output."""
        output = self._scope + output
        self._claim(output)
        self._nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def graft(self, body: onnx.ModelProto, source: str, prefix: str) -> Sequence[str]:
        """Append all nodes of `body`, a model with one input, and return the names of its outputs.

        The tensor `source` becomes the input of the body, and all names of the body get the `prefix`. The
        opset of the body must be `OPSET` or newer, and becomes the opset of the model.
        """
        for opset in body.opset_import:
            domain = "" if opset.domain == "ai.onnx" else opset.domain
            self._opsets[domain] = max(opset.version, self._opsets.get(domain, 0))
        self._ir_version = max(self._ir_version, body.ir_version)
        grafted = onnx.GraphProto()
        grafted.CopyFrom(body.graph)
        _forget_inner_shapes(grafted)
        # `compose` renames the graphs inside nodes before it renames the constants that they read. So the
        # constants are renamed here, and `compose` gets their new names.
        constants = {}
        for tensor in grafted.initializer:
            old = tensor.name
            tensor.name = f"{prefix}/{old}"
            constants[old] = self._store(tensor)
        del grafted.initializer[:]
        prefix = f"{self._scope}{prefix}/"
        compose.add_prefix_graph(grafted, prefix, inplace=True, name_map=constants)
        (given,) = grafted.input
        self._claim(prefix)
        self._nodes.append(helper.make_node("Identity", [source], [given.name], name=given.name))
        self._nodes.extend(grafted.node)
        return [output.name for output in grafted.output]

    def any(self, conditions: str, axis: int, output: str) -> str:
        """Append a logical "or" along an axis, as a sum of integers.

        onnxruntime has no reduction of bool for GPUs.
        """
        numbers = self.add("Cast", [conditions], f"{output}_numbers", to=onnx.TensorProto.INT32)
        count = self.add("ReduceSum", [numbers, self.integers(axis)], f"{output}_count", keepdims=0)
        return self.add("Cast", [count], output, to=onnx.TensorProto.BOOL)

    def constant_rows(self, constant: str, first: int, end: int, output: str) -> str:
        """Append a slice `first:end` of a constant's rows, or return the constant itself for all rows.

        Runtimes compute the slice once, while loading.
        """
        if first == 0 and end == self._constants[constant].dims[0]:
            return constant
        bounds = [self.integers(first), self.integers(end), self.integers(0)]
        return self.add("Slice", [constant, *bounds], output)

    def model(
        self, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto], name: str
    ) -> onnx.ModelProto:
        """Return the finished model, checked with its shapes against the ONNX specification.

        Raises:
            ExportError: the model does not comply, for example because of the network's body.
        """
        graph = helper.make_graph(self._nodes, name, inputs, outputs, list(self._constants.values()))
        # The checker would read the external files, which do not exist yet. So inputs of the same shapes
        # stand for the external tensors during the check.
        for tensor in self._external:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*opset) for opset in self._opsets.items()],
            ir_version=self._ir_version,
            producer_name="octofold",
        )
        try:
            onnx.checker.check_model(model, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise ExportError(
                f"the exported graph is not valid ONNX: {' '.join(str(error).split())}"
            ) from error
        del model.graph.input[len(inputs) :]
        model.graph.initializer.extend(self._external)
        return model

    def _claim(self, name: str) -> None:
        if name in self._names:
            raise ValueError(f"two tensors have the name {name}")
        self._names.add(name)


def keep_outputs(graph: onnx.GraphProto, outputs: Sequence[onnx.ValueInfoProto]) -> None:
    """Remove nodes and constants that do not contribute to `outputs`, and inputs that only name constants."""
    needed, nodes = {output.name for output in outputs}, []
    for node in reversed(graph.node):
        if needed.isdisjoint(node.output):
            continue
        nodes.append(node)
        needed.update(name for name in _inputs_of(node) if name)
    initializers = [tensor for tensor in graph.initializer if tensor.name in needed]
    constants = {tensor.name for tensor in initializers}
    inputs = [value for value in graph.input if value.name not in constants]
    replace_all(graph.node, nodes[::-1])
    replace_all(graph.initializer, initializers)
    replace_all(graph.input, inputs)
    replace_all(graph.output, outputs)
    del graph.value_info[:]


def replace_all(field: Any, values: Sequence[Any]) -> None:
    """Replace the elements of a repeated `field` by `values`, which may be some of these elements."""
    copies = [type(value).FromString(value.SerializeToString()) for value in values]
    del field[:]
    field.extend(copies)


def _inputs_of(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the tensors that a node and the graphs inside it read."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _inputs_of(inner)


def _forget_inner_shapes(graph: onnx.GraphProto) -> None:
    """Remove the declared shapes in the graphs inside nodes.

    A symbol in these shapes, such as `N`, may stand for another size in the surrounding graph.
    """
    for node in graph.node:
        for attribute in node.attribute:
            graphs = [attribute.g] if attribute.HasField("g") else []
            for inner in (*graphs, *attribute.graphs):
                del inner.value_info[:]
                for output in inner.output:
                    if output.type.HasField("tensor_type"):  # sequences, as in nn.EmbeddingBag, have no shape
                        output.type.tensor_type.ClearField("shape")
                _forget_inner_shapes(inner)
