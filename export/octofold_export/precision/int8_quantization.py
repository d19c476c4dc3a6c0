"""Chooses the integers of the 8-bit form from the network's activations on the calibration boards.

The layers are calibrated in order, each on the rounded outputs of the previous layer:

- Channels with very different ranges cannot share one scale well. Since ReLU(a x) = a ReLU(x) for a > 0, each
  channel is divided by the square root of its relative range, and the next layer's weights are multiplied by
  the same number. The results stay the same, and the ranges of the channels become more similar (after Nagel
  et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", ICCV 2019; here, the
  ranges are measured).
- A scale represents activations up to their maximum or up to a high quantile, whichever fits better.
- Weights are rounded so that a layer's sums change as little as possible on its real inputs (least squares).
  First the weights are fitted to the rounded inputs. Then they are rounded one input at a time, and the error
  is moved to the remaining inputs (Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative
  Pre-trained Transformers", ICLR 2023; the greedy form of Hassibi and Stork's optimal brain surgeon). The
  bias corrects the remaining mean error.
- The first layer is a table, whose weights are not rounded.
- The choice of a move depends most on the output layer. It keeps 15 bits of its weights as two columns of 8
  bits, which cost little compared to the hidden layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from octofold_export.handmade.encoding import Floats, PatternSums
from octofold_export.handmade.geometry import Region
from octofold_export.handmade.layers import LayersEvaluator
from octofold_export.handmade.weights import Layer, NetworkWeights
from octofold_export.precision.int8_layers import (
    IntegerProduct,
    QuantizedHidden,
    QuantizedOutput,
    first_layer,
)

CLIP_QUANTILES = (1.0, 0.999999)
"""Quantiles to try. The scale represents activations up to the quantile; 1 is the maximum."""

LARGEST_WEIGHT = 127
_CONVOLUTION_DIVISOR = 2
"""Number by which the number of calibration boards is divided for convolutions."""
_DAMPING = 0.1
"""Damping as a share of the inputs' mean square. It keeps rarely active inputs from taking all error."""
_BLOCK = 64
"""Number of inputs whose errors are moved to later inputs in one product."""
_WIDTH = 32
"""Multiple to which numbers of channels are padded. Products and copies are faster with 224 channels than
with 222."""
_LARGEST_ACTIVATION = 255
_FINE_STEPS = 254
"""Number of fine steps in a coarse step of the output layer's weights. A rounding error of up to half a
coarse step is then an 8-bit number of fine steps."""
_SMALLEST_RANGE = 1e-3
"""Minimum range of a channel relative to the widest one, for channels that are never active."""
_LARGEST_BIAS = 2.0**30
"""Maximum bias as an integer. The rest of the int32 range is left for the sum of the products."""


def quantize_network(
    network: NetworkWeights, views: NDArray[np.uint8], error: Callable[[LayersEvaluator], float]
) -> LayersEvaluator:
    """Calibrate `network` with each clip quantile, and return the 8-bit form with the smallest `error`.

    `views` `[N, 16]` are views of the calibration boards.
    """
    return min((calibrate(network, views, quantile) for quantile in CLIP_QUANTILES), key=error)


def thin_for_convolutions(network: NetworkWeights, views: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the views to calibrate on: half of `views` for convolutions, otherwise all.

    In a convolution, each cell is a separate sample, so half of the boards suffice.
    """
    cells = [sum(region.cells for region in layer.shape.regions) for layer in network.hidden]
    return views[:: min([_CONVOLUTION_DIVISOR, *cells])]


def calibrate(network: NetworkWeights, views: NDArray[np.uint8], clip_quantile: float) -> LayersEvaluator:
    """Return the 8-bit form of `network`, calibrated on `views` `[N, 16]` of the calibration boards."""
    network = widen(network, _WIDTH)
    first, layers = first_layer(network)
    exact = first.activations(views)  # [N, places, inputs] of the current layer
    divisors = _channel_divisors(exact)  # [inputs]
    scale = _output_scale(exact / divisors, clip_quantile)
    encoder = first.rounded(divisors, scale)
    rounded = _round(exact / divisors, scale)
    hidden = []
    for layer in layers:
        name, regions = layer.shape.name, layer.shape.regions
        inputs = exact / divisors
        sums = multiply(exact, layer.weights, regions) + layer.bias
        exact = np.maximum(sums, 0)
        next_divisors = _channel_divisors(exact)
        weights = layer.weights * divisors[:, None] / next_divisors
        output_scale = _output_scale(exact / next_divisors, clip_quantile)

        squares = gram(rounded, rounded, regions)
        change = gram(rounded, inputs - rounded, regions)
        flat = refit(weights.reshape(-1, layer.bias.size), squares, change)
        weight_scales = _weight_scales(flat, layer.bias / next_divisors, scale)
        integers = round_weights(flat, weight_scales, squares)

        sums_rounded = multiply(rounded, (integers * weight_scales).reshape(weights.shape), regions)
        bias = _round_bias((sums / next_divisors - sums_rounded).mean(axis=(0, 1)), scale * weight_scales)
        sums_rounded += bias * (scale * weight_scales)
        product = IntegerProduct(name, integers, weight_scales, bias, scale)
        hidden.append(QuantizedHidden(layer.shape, product, output_scale))
        rounded = _round(sums_rounded, output_scale)
        divisors, scale = next_divisors, output_scale
    output = _calibrate_output(network.output, exact, rounded, divisors, scale)
    return LayersEvaluator(encoder, (*hidden, output))


def _calibrate_output(
    layer: Layer, exact: Floats, rounded: Floats, divisors: Floats, scale: np.float32
) -> QuantizedOutput:
    outputs = multiply(exact, layer.weights, layer.shape.regions) + layer.bias
    weights = layer.weights * divisors[:, None]  # [taps, inputs, outputs]
    coarse_scales = _weight_scales(weights.reshape(-1, layer.bias.size), layer.bias, scale)
    coarse = np.rint(weights / coarse_scales)
    fine_scales = coarse_scales / np.float32(_FINE_STEPS)
    fine = np.rint((weights - coarse * coarse_scales) / fine_scales)

    steps = coarse * coarse_scales + fine * fine_scales
    outputs_rounded = multiply(rounded, steps, layer.shape.regions)
    bias = _round_bias((outputs - outputs_rounded).mean(axis=(0, 1)), scale * fine_scales)
    both = np.concatenate([coarse, fine], axis=2).clip(-LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int8)
    product = IntegerProduct(
        layer.shape.name,
        both.reshape(-1, both.shape[2]),
        np.concatenate([coarse_scales, fine_scales]),
        np.concatenate([np.zeros_like(bias), bias]),
        scale,
    )
    return QuantizedOutput(layer.shape, product)


def _channel_divisors(activations: Floats) -> Floats:
    """Return the square root `[channels]` of each channel's range relative to the widest range."""
    ranges = activations.max(axis=(0, 1))
    widest = ranges.max() or np.float32(1)
    divisors: Floats = np.sqrt(np.maximum(ranges / widest, np.float32(_SMALLEST_RANGE)))
    return divisors


def _output_scale(activations: Floats, clip_quantile: float) -> np.float32:
    largest = np.quantile(activations, clip_quantile) or activations.max() or 1.0
    return np.float32(largest / _LARGEST_ACTIVATION)


def _round(activations: Floats, scale: np.float32) -> Floats:
    rounded: Floats = np.clip(np.rint(activations / scale), 0, _LARGEST_ACTIVATION) * scale
    return rounded


def _weight_scales(weights: Floats, bias: Floats, input_scale: np.float32) -> Floats:
    """Return the scales `[outputs]` of the weights, large enough for the largest weight and a 32-bit bias."""
    largest = np.abs(weights).max(axis=0)
    for_bias = np.abs(bias) / (input_scale * np.float32(_LARGEST_BIAS / _FINE_STEPS))
    smallest = np.finfo(np.float32).tiny * 2.0**40
    scales: Floats = np.maximum(np.maximum(largest / LARGEST_WEIGHT, for_bias), smallest).astype(np.float32)
    return scales


def _round_bias(bias: Floats, scales: Floats) -> NDArray[np.int32]:
    integers: NDArray[np.int32] = np.rint(bias / scales).clip(-_LARGEST_BIAS, _LARGEST_BIAS).astype(np.int32)
    return integers


def multiply(inputs: Floats, weights: Floats, regions: Sequence[Region]) -> Floats:
    """Multiply inputs `[N, places, inputs]` by weights `[taps, inputs, outputs]`.

    Returns `[N, cells of all regions, outputs]`.
    """
    parts = []
    for region in regions:
        used = weights[region.first_tap : region.end_tap]
        product = _rows(inputs, region) @ used.reshape(-1, used.shape[2])
        parts.append(product.reshape(len(inputs), region.cells, -1))
    return np.concatenate(parts, axis=1)


def gram(left: Floats, right: Floats, regions: Sequence[Region]) -> NDArray[np.float64]:
    """Return the mean of `left.T @ right` over all cells: `[taps * inputs, taps * inputs]`.

    `left` and `right` are `[N, places, inputs]`. Taps that a cell does not have count as zero.
    """
    channels = left.shape[2]
    size = channels * max(region.end_tap for region in regions)
    products = np.zeros((size, size))
    for region in regions:
        used = slice(region.first_tap * channels, region.end_tap * channels)
        products[used, used] += _rows(left, region).T @ _rows(right, region)
    return products / (len(left) * sum(region.cells for region in regions))


def _rows(inputs: Floats, region: Region) -> Floats:
    """Return the activations that each cell of a region reads: `[N * cells, taps * inputs]`."""
    return inputs[:, region.sources].reshape(len(inputs) * region.cells, -1)


def refit(weights: Floats, gram: NDArray[np.float64], change: NDArray[np.float64]) -> Floats:
    """Return weights `[inputs, outputs]` fitted to rounded inputs, with sums close to the exact sums.

    `gram` is the mean of `rounded.T @ rounded`, and `change` the mean of `rounded.T @ (exact - rounded)`.
    """
    correction = np.linalg.solve(_damped(gram), change @ weights)
    return (weights + correction).astype(np.float32)


def round_weights(weights: Floats, scales: Floats, gram: NDArray[np.float64]) -> NDArray[np.int8]:
    """Return the weights as integers `[inputs, outputs]` in steps of `scales` `[outputs]`.

    The layer's sums change as little as possible for inputs with the Gram matrix `gram`.
    """
    remaining = weights.astype(np.float64)
    integers = np.zeros(weights.shape, np.int8)
    # Row i of this upper triangular factor says how the error of input i is best distributed over itself and
    # the later inputs.
    factor = np.linalg.cholesky(np.linalg.inv(_damped(gram))).T
    for start in range(0, len(weights), _BLOCK):
        end = min(start + _BLOCK, len(weights))
        errors = np.zeros((end - start, weights.shape[1]))
        for row in range(start, end):
            integers[row] = np.rint(remaining[row] / scales).clip(-LARGEST_WEIGHT, LARGEST_WEIGHT)
            errors[row - start] = (remaining[row] - integers[row] * scales) / factor[row, row]
            remaining[row + 1 : end] -= np.outer(factor[row, row + 1 : end], errors[row - start])
        remaining[end:] -= factor[start:end, end:].T @ errors
    return integers


def _damped(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    mean_square = gram.diagonal().mean() or 1.0  # 1 if all inputs are 0
    damped: NDArray[np.float64] = gram + _DAMPING * mean_square * np.eye(len(gram))
    return damped


def widen(network: NetworkWeights, multiple: int) -> NetworkWeights:
    """Pad the channels between the layers of `network` with zeros, up to multiples of `multiple`.

    Processors multiply and copy padded channels faster. The network's outputs stay the same.
    """
    encoding = network.encoding
    inputs_too = isinstance(encoding, PatternSums)  # one-hot inputs are not padded
    if isinstance(encoding, PatternSums):
        patterns = (
            replace(pattern, table=_padded(pattern.table, 3, multiple)) for pattern in encoding.patterns
        )
        encoding = replace(encoding, patterns=tuple(patterns))
    hidden = []
    for layer in network.hidden:
        hidden.append(_widened(layer, multiple if inputs_too else 1, multiple))
        inputs_too = True
    return NetworkWeights(encoding, tuple(hidden), _widened(network.output, multiple, 1))


def _widened(layer: Layer, inputs: int, outputs: int) -> Layer:
    weights = _padded(_padded(layer.weights, 1, inputs), 2, outputs)
    shape = replace(layer.shape, inputs=weights.shape[1], outputs=weights.shape[2])
    return Layer(shape, weights, _padded(layer.bias, 0, outputs))


def _padded(values: np.ndarray, axis: int, multiple: int) -> np.ndarray:
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, -values.shape[axis] % multiple)
    return np.pad(values, widths)
