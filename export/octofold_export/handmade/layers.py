"""The layers of hand-made graphs: matrix products over all views at once, in float32 and float16.

    cells [N, P] --encoder--> [N, Q, E] --layers--> [N * V, 1, outputs]

The views of a board are part of the batch, so every layer is a few large matrix products. A layer defines the
arithmetic of its products; `add_layers` gathers the cells that the products read. Float32 is the reference
for other precisions. In float16, the output layer still computes in float32, because the choice of a move
depends most on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from octofold_export.graph.builder import GraphBuilder
from octofold_export.handmade.encoding import Encoder
from octofold_export.handmade.geometry import LayerShape, Places
from octofold_export.handmade.weights import Layer, NetworkWeights


class GraphLayer(Protocol):
    """A layer of a graph, in one precision."""

    @property
    def shape(self) -> LayerShape:
        """The shape of the layer."""

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        """Add the product of `rows` `[M, end - first]` with rows `first:end` of the weights.

        The result is `[M, shape.outputs]`, in the type of the next layer.
        """


def add_layers(
    graph: GraphBuilder, encoded: str, layers: Sequence[GraphLayer], views: NDArray[np.intp]
) -> str:
    """Add the layers after the encoded boards `[N, P, E]`; return the outputs `[N * V, 1, outputs]`.

    Row v of `views` `[V, places]` gives the indices of the places of view v in `encoded`. So a board is
    encoded once, and the first layer reads every view from this encoding.
    """
    activations, places = encoded, views
    for layer in layers:
        shape, parts = layer.shape, []
        for region in shape.regions:
            name = f"{shape.name}_{region.name}"
            rows = activations
            reads_all_in_order = np.array_equal(region.sources.ravel(), places)
            if not reads_all_in_order:
                index = graph.constant(f"{name}_sources", places[..., region.sources].astype(np.int64))
                rows = graph.add("Gather", [activations, index], f"{name}_neighbours", axis=1)
            width = graph.integers(-1, region.taps * shape.inputs)
            rows = graph.add("Reshape", [rows, width], f"{name}_rows")
            first, end = region.first_tap * shape.inputs, region.end_tap * shape.inputs
            product = layer.multiply(graph, rows, first, end, f"{name}_product")
            by_view = graph.integers(-1, region.cells, shape.outputs)
            parts.append(graph.add("Reshape", [product, by_view], name))
        activations = parts[0] if len(parts) == 1 else graph.add("Concat", parts, shape.name, axis=1)
        places = np.arange(sum(region.cells for region in shape.regions))
    return activations


@dataclass(frozen=True)
class LayersEvaluator:
    """A `heads.GraphEvaluator` that adds the nodes of a network in one precision."""

    encoder: Encoder
    layers: tuple[GraphLayer, ...]
    """The layers in order; the last one returns float32."""

    def evaluate(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """Add the nodes of the network, as in `GraphEvaluator.evaluate`."""
        encoded, places = self.encoder.encode(graph, cells, views)
        return add_layers(graph, encoded, self.layers, places)


@dataclass(frozen=True)
class FloatLayer:
    """A layer in float32 or float16. The graph stores its weights once and slices them for each region."""

    layer: Layer
    relu: bool
    half: bool = False
    """Whether the layer computes in float16."""
    after_half: bool = False
    """Whether the layer converts its inputs from float16 to float32."""

    @property
    def shape(self) -> LayerShape:
        """The shape of the layer."""
        return self.layer.shape

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        """Add the product with rows `first:end` of the weights, as in `GraphLayer.multiply`."""
        if self.after_half:
            rows = graph.add("Cast", [rows], f"{name}_cast", to=TensorProto.FLOAT)
        number = np.float16 if self.half else np.float32
        matrix = self.layer.weights.reshape(-1, self.shape.outputs).astype(number)
        stored = graph.constant(f"{self.shape.name}_weights", matrix)
        weights = graph.constant_rows(stored, first, end, f"{name}_weights")
        bias = graph.constant(f"{self.shape.name}_bias", self.layer.bias.astype(number))
        if not self.relu:
            return graph.add("Gemm", [rows, weights, bias], name)
        return graph.add("Relu", [graph.add("Gemm", [rows, weights, bias], f"{name}_sum")], name)


def float32_network(network: NetworkWeights) -> LayersEvaluator:
    """Return the evaluator of `network` in float32."""
    return LayersEvaluator(
        encoder=network.encoding,
        layers=(
            *(FloatLayer(layer, relu=True) for layer in network.hidden),
            FloatLayer(network.output, relu=False),
        ),
    )


@dataclass(frozen=True)
class _CastEncoder:
    """An encoder whose result is converted to another type."""

    encoder: Encoder
    type: int

    def encode(self, graph: GraphBuilder, cells: str, views: Places) -> tuple[str, Places]:
        encoded, places = self.encoder.encode(graph, cells, views)
        return graph.add("Cast", [encoded], "encoded_cast", to=self.type), places


def float16_network(network: NetworkWeights) -> LayersEvaluator:
    """Return the evaluator of `network` in float16, with an output layer in float32."""
    return LayersEvaluator(
        encoder=_CastEncoder(network.encoding, TensorProto.FLOAT16),
        layers=(
            *(FloatLayer(layer, relu=True, half=True) for layer in network.hidden),
            FloatLayer(network.output, relu=False, after_half=True),
        ),
    )
