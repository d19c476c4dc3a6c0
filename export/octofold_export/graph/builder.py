"""A thin layer over onnx.helper in which a graph is written as a sequence of expressions.

Knows the file format only: names, constants, nodes, the versions written into the model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from octofold_game.model import tensor_file
from onnx import compose, helper, numpy_helper

from octofold_export.errors import ExportError

OPSET = 18
"""Read by onnxruntime 1.14 and later. A newer one is written only where a network's body needs it: with that,
onnxruntime has no CUDA kernel for ReduceMax."""
IR_VERSION = 8


class GraphBuilder:
    """Collects constants and nodes; every method returns the name of the tensor that it made."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._external: list[onnx.TensorProto] = []
        self._names: set[str] = set()
        self._opsets: dict[str, int] = {"": OPSET}
        self._ir_version = IR_VERSION

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """Store an array under `name`. Storing equal values under one name again is free."""
        tensor = numpy_helper.from_array(np.ascontiguousarray(values).reshape(values.shape), name)
        if name not in self._constants:
            self._claim(name)
            self._constants[name] = tensor
        elif self._constants[name] != tensor:
            raise ValueError(f"two constants are called {name}")
        return name

    def external(self, name: str, values: NDArray[np.float32]) -> str:
        """Refer to a vector too large for the model, which is what `tensor_file(name)` holds.

        Its digest is in the model, so that other values make another model.
        """
        self._claim(name)
        tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=values.shape)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        description = {
            "location": tensor_file(name),
            "offset": "0",
            "length": str(values.nbytes),
            "checksum": hashlib.sha1(values.data, usedforsecurity=False).hexdigest(),  # as ONNX defines it
        }
        for key, value in description.items():
            tensor.external_data.add(key=key, value=value)
        self._external.append(tensor)
        return name

    def integers(self, *values: int) -> str:
        """A small int64 vector, as shapes and axes need; equal vectors are stored once."""
        return self.constant(f"ints_{'_'.join(map(str, values))}", np.array(values, np.int64))

    def add(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Append a node with one output, which gives the node its name too."""
        self._claim(output)
        self._nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def graft(self, body: onnx.ModelProto, source: str, prefix: str) -> str:
        """Append all nodes of `body`, a model of one input and one output, reading `source` as its input.

        Its names go under `prefix`. Its opset must be `OPSET` or newer; the whole model takes it over.
        """
        for opset in body.opset_import:
            domain = "" if opset.domain == "ai.onnx" else opset.domain
            self._opsets[domain] = max(opset.version, self._opsets.get(domain, 0))
        self._ir_version = max(self._ir_version, body.ir_version)
        grafted = onnx.GraphProto()
        grafted.CopyFrom(body.graph)
        compose.add_prefix_graph(grafted, f"{prefix}/", inplace=True)
        (given,), (result,) = grafted.input, grafted.output
        self._claim(f"{prefix}/")
        for tensor in grafted.initializer:
            self._constants[tensor.name] = tensor
        self.add("Identity", [source], given.name)
        self._nodes.extend(grafted.node)
        return str(result.name)

    def any(self, conditions: str, axis: int, output: str) -> str:
        """Whether any of the conditions along an axis holds; no reduction of bool runs on a GPU."""
        numbers = self.add("Cast", [conditions], f"{output}_numbers", to=onnx.TensorProto.INT32)
        count = self.add("ReduceSum", [numbers, self.integers(axis)], f"{output}_count", keepdims=0)
        return self.add("Cast", [count], output, to=onnx.TensorProto.BOOL)

    def constant_rows(self, constant: str, first: int, end: int, output: str) -> str:
        """Rows `first:end` of a constant; runtimes cut it once, while loading. All of them: itself."""
        if first == 0 and end == self._constants[constant].dims[0]:
            return constant
        bounds = [self.integers(first), self.integers(end), self.integers(0)]
        return self.add("Slice", [constant, *bounds], output)

    def model(
        self, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto], name: str
    ) -> onnx.ModelProto:
        """The finished model, checked against the ONNX specification, shapes included.

        Raises `ExportError` if it does not comply, as a network's body may not.
        """
        graph = helper.make_graph(self._nodes, name, inputs, outputs, list(self._constants.values()))
        # The checker insists on seeing the files; it takes inputs of the same shape for their tensors.
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
            raise ExportError(f"not a valid ONNX graph: {' '.join(str(error).split())}") from error
        del model.graph.input[len(inputs) :]
        model.graph.initializer.extend(self._external)
        return model

    def _claim(self, name: str) -> None:
        if name in self._names:
            raise ValueError(f"two tensors are called {name}")
        self._names.add(name)
