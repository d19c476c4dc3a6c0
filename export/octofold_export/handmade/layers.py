"""The layers of our own kinds of network as matrix products over all views at once.

    cells [N, P] --encoder--> [N, Q, E] --layers--> [N * V, 1, outputs]

The views of a board are part of the batch, so every layer is a few large matrix products. The layers define
the arithmetic of the products (float32, or integers between quantized layers); this file arranges the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from octofold_export.graph.builder import GraphBuilder
from octofold_export.handmade.encoding import Encoder
from octofold_export.handmade.geometry import LayerShape


class FoldedLayer(Protocol):
    """A layer in some number format."""

    @property
    def shape(self) -> LayerShape:
        """The shape of the layer."""

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        """Add the product of `[M, end - first]` with rows `first:end` of the weights.

        The result is `[M, shape.outputs]`, in the type of the next layer.
        """
        ...


def network(graph: GraphBuilder, encoded: str, layers: Sequence[FoldedLayer], views: NDArray[np.intp]) -> str:
    """Apply the layers to `[N, P, E]`, for the outputs `[N * S, 1, outputs]` of every view.

    Row s of `views` `[S, P]` gives the indices of the places of view s in `encoded`. The views need no
    copies: the first layer reads the places of every view from the one encoded board.
    """
    activations, places = encoded, views
    for layer in layers:
        shape, parts = layer.shape, []
        for region in shape.regions:
            name = f"{shape.name}_{region.name}"
            rows = activations
            if not np.array_equal(region.sources.ravel(), places):  # else it reads all places in order
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
class Form:
    """A network in one number format; implements `heads.Evaluator`."""

    encoder: Encoder
    layers: tuple[FoldedLayer, ...]
    "the last one gives float32"

    def evaluate(self, graph: GraphBuilder, cells: str, views: NDArray[np.intp]) -> str:
        """Add the whole network, as `Evaluator.evaluate`."""
        encoded, places = self.encoder.encode(graph, cells, views)
        return network(graph, encoded, self.layers, places)
