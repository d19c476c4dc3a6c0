"""The 8-bit form of a network: unsigned activations, signed weights with a scale for each output.

Written so that onnxruntime runs each product as one integer operation (QGemm): a product lies between
DequantizeLinear and QuantizeLinear nodes, which it absorbs. Activations start at zero point 0, so the
saturation of QuantizeLinear is the ReLU. Where the numbers come from is calibration's business.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from octofold_export.builder import GraphBuilder
from octofold_export.geometry import Region


@dataclass(frozen=True)
class IntegerProduct:
    """Integers that stand for `weights * weight_scales` and `bias * input_scale * weight_scales`."""

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
        """Inputs `[M, end - first] uint8` by weight rows `first:end`, plus bias: `[M, outputs] float32`."""
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
class QuantizedConvolution:
    """A convolution from `[..., inputs] uint8` to `[..., outputs] uint8`."""

    product: IntegerProduct
    output_scale: np.float32

    @property
    def inputs(self) -> int:
        return len(self.product.weights) // 4

    @property
    def outputs(self) -> int:
        return len(self.product.bias)

    def multiply(self, graph: GraphBuilder, rows: str, region: Region, name: str) -> str:
        first, end = region.first_tap * self.inputs, region.end_tap * self.inputs
        product = self.product.multiply(graph, rows, first, end, f"{name}_sum")
        scale = graph.constant(f"{self.product.name}_output_scale", np.array(self.output_scale))
        return graph.add("QuantizeLinear", [product, scale, zero_point(graph)], name)


@dataclass(frozen=True)
class QuantizedDense:
    """The dense layer from `[M, inputs] uint8` to float32 logits, as the sum of coarse and fine weights."""

    product: IntegerProduct
    "outputs: four of the coarse weights, then four of the fine ones"

    @property
    def inputs(self) -> int:
        return len(self.product.weights)

    def multiply(self, graph: GraphBuilder, rows: str, name: str) -> str:
        both = self.product.multiply(graph, rows, 0, self.inputs, f"{name}_both")
        halves = graph.add("Reshape", [both, graph.integers(-1, 2, 4)], f"{name}_halves")
        return graph.add("ReduceSum", [halves, graph.integers(1)], name, keepdims=0)


def zero_point(graph: GraphBuilder) -> str:
    """Zero point 0 of all activations."""
    return graph.constant("zero_point", np.array(0, np.uint8))
