"""The 8-bit form of a network: unsigned activations, signed weights with a scale for each output.

onnxruntime runs each product as one integer operation (QGemm), because a product is surrounded by
DequantizeLinear and QuantizeLinear nodes, which it absorbs. Activations have zero point 0, so the saturation
of QuantizeLinear is the ReLU. `calibration` chooses the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from octofold_export.graph.builder import GraphBuilder
from octofold_export.handmade.geometry import LayerShape


@dataclass(frozen=True)
class IntegerProduct:
    """Integers that represent `weights * weight_scales` and `bias * input_scale * weight_scales`."""

    name: str
    weights: NDArray[np.int8]
    "[rows, outputs]"
    weight_scales: NDArray[np.float32]
    "[outputs]"
    bias: NDArray[np.int32]
    "[outputs]"
    input_scale: np.float32
    "what one step of the unsigned inputs stands for"

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        """Multiply `[M, end - first] uint8` by weight rows `first:end` and add the bias: `[M, outputs]`."""
        kernel = graph.constant(f"{self.name}_weights", self.weights)
        used = graph.constant_rows(kernel, first, end, f"{name}_weights")
        scales = graph.constant(f"{self.name}_weight_scales", self.weight_scales)
        zeros = graph.constant(f"{self.name}_weight_zeros", np.zeros_like(self.weights, shape=len(self.bias)))
        weights = graph.add("DequantizeLinear", [used, scales, zeros], f"{name}_weights_float", axis=1)

        bias = graph.constant(f"{self.name}_bias", self.bias)
        bias_scales = graph.constant(f"{self.name}_bias_scales", self.input_scale * self.weight_scales)
        bias_zeros = graph.constant(f"{self.name}_bias_zeros", np.zeros_like(self.bias))
        bias_inputs = [bias, bias_scales, bias_zeros]
        bias_float = graph.add("DequantizeLinear", bias_inputs, f"{name}_bias_float", axis=0)

        scale = graph.constant(f"{self.name}_input_scale", np.array(self.input_scale))
        inputs = graph.add("DequantizeLinear", [rows, scale, zero_point(graph)], f"{name}_inputs_float")
        return graph.add("Gemm", [inputs, weights, bias_float], name)


@dataclass(frozen=True)
class QuantizedHidden:
    """A hidden layer from uint8 to uint8."""

    shape: LayerShape
    product: IntegerProduct
    output_scale: np.float32

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        """Add the product of inputs `first:end`, as `Layer.multiply`."""
        product = self.product.multiply(graph, rows, first, end, f"{name}_sum")
        scale = graph.constant(f"{self.shape.name}_output_scale", np.array(self.output_scale))
        return graph.add("QuantizeLinear", [product, scale, zero_point(graph)], name)


@dataclass(frozen=True)
class QuantizedOutput:
    """The output layer from uint8 to float32, as the sum of coarse and fine weights."""

    shape: LayerShape
    product: IntegerProduct
    "outputs: those of the coarse weights, then those of the fine ones"

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        """Add the product of inputs `first:end`, as `Layer.multiply`."""
        both = self.product.multiply(graph, rows, first, end, f"{name}_both")
        halves = graph.add("Reshape", [both, graph.integers(-1, 2, self.shape.outputs)], f"{name}_halves")
        return graph.add("ReduceSum", [halves, graph.integers(1)], name, keepdims=0)


def zero_point(graph: GraphBuilder) -> str:
    """Zero point 0 of all activations."""
    return graph.constant("zero_point", np.array(0, np.uint8))
