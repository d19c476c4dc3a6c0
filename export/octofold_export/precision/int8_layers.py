"""The 8-bit layers of hand-made graphs: uint8 activations, and int8 weights with a scale for each output.

The first layer is a table of the features of every window of up to four cells. A feature of a window is the
ReLU of a sum over its cells (for convolutions) or over pairs of its cells. Sixteen exponents make 65,536
windows of four cells, so the features of all of them fit a table. The layer then costs one lookup for each
window, and its weights are not rounded. The graph contains the terms of the sum, not the table, because
runtimes add up constants while loading.

In the other layers, DequantizeLinear nodes come before every product, and QuantizeLinear nodes after the
hidden ones. onnxruntime fuses them with the product into one integer operation (QGemm). Activations have the
zero point 0, so the saturation of QuantizeLinear is the ReLU. `int8_quantization` chooses integers
and scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from octofold_export.graph.builder import GraphBuilder
from octofold_export.handmade.encoding import Floats, Pattern, PatternSums, limit_exponents
from octofold_export.handmade.geometry import LayerShape, Places
from octofold_export.handmade.weights import Layer, NetworkWeights


@dataclass(frozen=True)
class IntegerProduct:
    """A matrix product in integers.

    As real numbers, the weights are `weights * weight_scales`, and the bias is `bias * input_scale *
    weight_scales`.
    """

    name: str
    weights: NDArray[np.int8]
    """The integer weights `[rows, outputs]`."""
    weight_scales: NDArray[np.float32]
    """The scales `[outputs]` of the weights."""
    bias: NDArray[np.int32]
    """The integer bias `[outputs]`."""
    input_scale: np.float32
    """The value of one step of the uint8 inputs."""

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        """Add the product of `rows` `[M, end - first] uint8` with weight rows `first:end`, plus the bias.

        Returns `[M, outputs] float32`.
        """
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
    """A hidden layer with uint8 inputs and outputs."""

    shape: LayerShape
    product: IntegerProduct
    output_scale: np.float32
    """The value of one step of the uint8 outputs."""

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        """Add the product with rows `first:end` of the weights, as in `GraphLayer.multiply`."""
        product = self.product.multiply(graph, rows, first, end, f"{name}_sum")
        scale = graph.constant(f"{self.shape.name}_output_scale", np.array(self.output_scale))
        return graph.add("QuantizeLinear", [product, scale, zero_point(graph)], name)


@dataclass(frozen=True)
class QuantizedOutput:
    """The output layer, from uint8 to float32. Each weight is the sum of a coarse and a fine weight."""

    shape: LayerShape
    product: IntegerProduct
    """The product with the coarse and the fine weights; the outputs of the coarse weights come first."""

    def multiply(self, graph: GraphBuilder, rows: str, first: int, end: int, name: str) -> str:
        """Add the product with rows `first:end` of the weights, as in `GraphLayer.multiply`."""
        both = self.product.multiply(graph, rows, first, end, f"{name}_both")
        halves = graph.add("Reshape", [both, graph.integers(-1, 2, self.shape.outputs)], f"{name}_halves")
        return graph.add("ReduceSum", [halves, graph.integers(1)], name, keepdims=0)


def zero_point(graph: GraphBuilder) -> str:
    """Add the zero point 0, which all activations share."""
    return graph.constant("zero_point", np.array(0, np.uint8))


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of k cells whose features are computed alike, such as the places of a pattern."""

    name: str
    places: NDArray[np.intp]
    """The cells `[windows, k]` of each window."""
    terms: Sequence[Floats]
    """The terms whose sum, after a ReLU, gives the features of a window. A term has k axes of size 1 or
    `exponents`, and an axis of features."""

    @property
    def cells(self) -> int:
        """Number of cells in a window."""
        return int(self.places.shape[1])


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """The first layer: the features of all windows of a board, one kind of window after another."""

    exponents: int
    windows: Sequence[Windows]

    def activations(self, views: NDArray[np.uint8]) -> Floats:
        """Return the features `[N, windows, features]` of boards `[N, 16]`, in float32."""
        found = []
        for kind in self.windows:
            cells = views[:, kind.places]  # [N, windows, k]
            parts = (
                term[tuple(cells[..., at] if size > 1 else 0 for at, size in enumerate(term.shape[:-1]))]
                for term in kind.terms
            )
            found.append(np.maximum(sum(parts), 0))
        return np.concatenate(found, axis=1)

    def rounded(self, divisors: Floats, scale: np.float32) -> RoundedFirstLayer:
        """Return the layer with outputs in uint8: features are divided by `divisors` and then by `scale`."""
        windows = [
            Windows(kind.name, kind.places, [term / (divisors * scale) for term in kind.terms])
            for kind in self.windows
        ]
        return RoundedFirstLayer(FirstLayer(self.exponents, windows))


@dataclass(frozen=True, eq=False)
class RoundedFirstLayer:
    """An `encoding.Encoder` that adds the nodes of a first layer with uint8 features."""

    layer: FirstLayer
    """The first layer, whose terms are in units of a uint8 step."""

    def encode(self, graph: GraphBuilder, cells: str, views: Places) -> tuple[str, Places]:
        """Add the table lookups of all windows, as in `Encoder.encode`."""
        digits, starts, places, tables = [], [], [], []
        windows_before = rows_before = 0
        for kind in self.layer.windows:
            shown = views[:, kind.places]  # [V, windows, k]
            # Each window is looked up once for all views that contain it.
            seen, which = np.unique(shown.reshape(-1, kind.cells), axis=0, return_inverse=True)
            places.append(which.reshape(shown.shape[:2]) + windows_before)
            # The row of a window is a number whose digits are the exponents of its cells.
            powers = np.zeros((views.max() + 1, len(seen)), np.int32)
            for place in range(kind.cells):
                power = self.layer.exponents ** (kind.cells - 1 - place)
                powers[seen[:, place], np.arange(len(seen))] = power
            digits.append(powers)
            starts.append(np.full(len(seen), rows_before, np.int32))
            tables.append(_table(graph, kind))
            windows_before += len(seen)
            rows_before += self.layer.exponents**kind.cells
        exponents = limit_exponents(graph, cells, self.layer.exponents)
        factors = graph.constant("window_digits", np.concatenate(digits, axis=1))
        numbers = graph.add("MatMul", [exponents, factors], "window_numbers")
        first_rows = graph.constant("window_starts", np.concatenate(starts))
        rows = graph.add("Add", [numbers, first_rows], "window_rows")
        table = tables[0] if len(tables) == 1 else graph.add("Concat", tables, "windows_table", axis=0)
        return graph.add("Gather", [table, rows], "encoded", axis=0), np.concatenate(places, axis=1)


def first_layer(network: NetworkWeights) -> tuple[FirstLayer, tuple[Layer, ...]]:
    """Return the part of `network` that fits a table, and the hidden layers after it."""
    encoding = network.encoding
    if isinstance(encoding, PatternSums):
        return FirstLayer(encoding.exponents, [*map(_of_pattern, encoding.patterns)]), network.hidden
    first, *rest = network.hidden
    return FirstLayer(encoding.exponents, _of_convolution(first)), tuple(rest)


def _of_pattern(pattern: Pattern) -> Windows:
    terms = []
    for table, pair in zip(pattern.table, pattern.pairs, strict=True):
        exponents, _, features = table.shape
        shape = [exponents if place in pair else 1 for place in range(pattern.places.shape[1])]
        terms.append(table.reshape(*shape, features))
    return Windows(pattern.name, pattern.places, terms)


def _of_convolution(layer: Layer) -> list[Windows]:
    kinds = []
    for region in layer.shape.regions:
        filters = layer.weights[region.first_tap : region.end_tap]  # [k, exponents, features]
        terms = []
        for place, weights in enumerate(filters):
            shape = [1] * region.taps
            shape[place] = len(weights)
            terms.append(weights.reshape(*shape, -1) + (layer.bias if place == 0 else 0))
        kinds.append(Windows(region.name, region.sources, terms))
    return kinds


def _table(graph: GraphBuilder, kind: Windows) -> str:
    """Return the table `[exponents**k, features] uint8` of the features of one kind of window."""
    total = graph.constant(f"{kind.name}_terms_0", kind.terms[0])
    for number, term in enumerate(kind.terms[1:], 1):
        more = graph.constant(f"{kind.name}_terms_{number}", term)
        total = graph.add("Add", [total, more], f"{kind.name}_sums_{number}")
    one = graph.constant("one_step", np.array(1, np.float32))
    steps = graph.add("QuantizeLinear", [total, one, zero_point(graph)], f"{kind.name}_steps")
    return graph.add("Reshape", [steps, graph.integers(-1, kind.terms[0].shape[-1])], f"{kind.name}_table")
