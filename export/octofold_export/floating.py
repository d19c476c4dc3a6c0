"""The float32 form of a network: what every other precision is compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from octofold_export.builder import GraphBuilder
from octofold_export.folding import Form
from octofold_export.geometry import Region
from octofold_export.weights import Convolution, Floats, PolicyNetwork


@dataclass(frozen=True)
class FloatConvolution:
    """A convolution whose kernel is stored once and sliced for the smaller regions."""

    name: str
    layer: Convolution

    @property
    def inputs(self) -> int:
        return len(self.layer.weights[0])

    @property
    def outputs(self) -> int:
        return len(self.layer.bias)

    def multiply(self, graph: GraphBuilder, rows: str, region: Region, name: str) -> str:
        kernel = graph.constant(f"{self.name}_weights", self.layer.weights.reshape(-1, self.outputs))
        first, end = region.first_tap * self.inputs, region.end_tap * self.inputs
        weights = graph.constant_rows(kernel, first, end, f"{name}_weights")
        bias = graph.constant(f"{self.name}_bias", self.layer.bias)
        product = graph.add("Gemm", [rows, weights, bias], f"{name}_sum")
        return graph.add("Relu", [product], name)


@dataclass(frozen=True)
class FloatDense:
    """The dense layer: `weights` `[inputs, 4]`, `bias` `[4]`."""

    weights: Floats
    bias: Floats

    @property
    def inputs(self) -> int:
        return len(self.weights)

    def multiply(self, graph: GraphBuilder, rows: str, name: str) -> str:
        weights = graph.constant("dense_weights", self.weights)
        return graph.add("Gemm", [rows, weights, graph.constant("dense_bias", self.bias)], name)


def float_form(network: PolicyNetwork) -> Form:
    """`network` in float32, unchanged."""
    return Form(
        codes=np.eye(network.exponents, dtype=np.float32),
        convolutions=tuple(
            FloatConvolution(f"conv{depth}", layer) for depth, layer in enumerate(network.convolutions)
        ),
        dense=FloatDense(network.dense_weights, network.dense_bias),
    )
