"""The float32 form of a network: what every other precision is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from octofold_export.builder import GraphBuilder
from octofold_export.folding import Form
from octofold_export.geometry import LayerShape
from octofold_export.weights import FoldableNetwork, Layer


@dataclass(frozen=True)
class FloatLayer:
    """A layer whose weights are stored once and sliced for the smaller regions."""

    layer: Layer
    relu: bool

    @property
    def shape(self) -> LayerShape:
        return self.layer.shape

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        matrix = self.layer.weights.reshape(-1, self.shape.outputs)
        stored = graph.constant(f"{self.shape.name}_weights", matrix)
        weights = graph.constant_rows(stored, first, end, f"{name}_weights")
        bias = graph.constant(f"{self.shape.name}_bias", self.layer.bias)
        if not self.relu:
            return graph.add("Gemm", [rows, weights, bias], name)
        return graph.add("Relu", [graph.add("Gemm", [rows, weights, bias], f"{name}_sum")], name)


def float_form(network: FoldableNetwork) -> Form:
    """`network` in float32, unchanged."""
    return Form(
        encoder=network.encoding.encoder(),
        layers=(
            *(FloatLayer(layer, relu=True) for layer in network.hidden),
            FloatLayer(network.output, relu=False),
        ),
    )
