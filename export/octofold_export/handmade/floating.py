"""The float32 form of a network, the reference for other precisions, and the float16 form for GPUs.

In float16, the output layer still computes in float32, because the choice of a move depends most on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from octofold_export.graph.builder import GraphBuilder
from octofold_export.handmade.encoding import Encoder, Places
from octofold_export.handmade.geometry import LayerShape
from octofold_export.handmade.layers import Form
from octofold_export.handmade.weights import FoldableNetwork, Layer


@dataclass(frozen=True)
class FloatLayer:
    """A layer that stores its weights once and slices them for smaller regions."""

    layer: Layer
    relu: bool
    half: bool = False
    "in float16"

    @property
    def shape(self) -> LayerShape:
        """The shape of the layer."""
        return self.layer.shape

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        """Add the product of inputs `first:end`, as `Layer.multiply`."""
        number = np.float16 if self.half else np.float32
        matrix = self.layer.weights.reshape(-1, self.shape.outputs).astype(number)
        stored = graph.constant(f"{self.shape.name}_weights", matrix)
        weights = graph.constant_rows(stored, first, end, f"{name}_weights")
        bias = graph.constant(f"{self.shape.name}_bias", self.layer.bias.astype(number))
        if not self.relu:
            return graph.add("Gemm", [rows, weights, bias], name)
        return graph.add("Relu", [graph.add("Gemm", [rows, weights, bias], f"{name}_sum")], name)


def float_form(network: FoldableNetwork) -> Form:
    """Make `network` in float32, unchanged."""
    return Form(
        encoder=network.encoding.encoder(),
        layers=(
            *(FloatLayer(layer, relu=True) for layer in network.hidden),
            FloatLayer(network.output, relu=False),
        ),
    )


@dataclass(frozen=True)
class _CastEncoder:
    """Converts the activations of an encoder to another type."""

    encoder: Encoder
    type: int

    def encode(self, graph: GraphBuilder, cells: str, views: Places) -> tuple[str, Places]:
        encoded, places = self.encoder.encode(graph, cells, views)
        return graph.add("Cast", [encoded], "encoded_cast", to=self.type), places


@dataclass(frozen=True)
class _CastLayer:
    """A layer that converts its inputs to the type of its computation."""

    layer: FloatLayer
    type: int

    @property
    def shape(self) -> LayerShape:
        """The shape of the layer."""
        return self.layer.shape

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        """Add the product of inputs `first:end`, as `Layer.multiply`."""
        cast = graph.add("Cast", [rows], f"{name}_cast", to=self.type)
        return self.layer.multiply(graph, cast, first, end, name)


def half_form(network: FoldableNetwork) -> Form:
    """Make `network` in float16 up to the last hidden layer."""
    output = FloatLayer(network.output, relu=False)
    return Form(
        encoder=_CastEncoder(network.encoding.encoder(), TensorProto.FLOAT16),
        layers=(
            *(FloatLayer(layer, relu=True, half=True) for layer in network.hidden),
            _CastLayer(output, TensorProto.FLOAT),
        ),
    )
