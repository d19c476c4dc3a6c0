"""Chooses the integers of the 8-bit form from what the network does on real boards.

Layer by layer, each seeing the rounded outputs of those before it:

- Channels of very different ranges share one scale badly. Since ReLU(a x) = a ReLU(x) for a > 0, each
  channel is divided by the root of its relative range and the next layer's weights are multiplied by it: the
  same network, with evener channels (after Nagel et al., "Data-Free Quantization Through Weight Equalization
  and Bias Correction", ICCV 2019, but with measured ranges).
- The scale of a layer's outputs ends at a high quantile of them instead of the rarest peak.
- Weights are rounded together, see `rounding`, and the bias takes up the mean error that is left.
- One-hot inputs are exact. The dense layer, on which the choice of a move hangs most, keeps 15 bits of its
  weights as two columns of 8, which cost nothing beside the convolutions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from octofold_export import neighbourhoods
from octofold_export.folding import Form
from octofold_export.neighbourhoods import convolve
from octofold_export.quantized import IntegerProduct, QuantizedConvolution, QuantizedDense
from octofold_export.rounding import LARGEST_WEIGHT, refit, round_weights
from octofold_export.weights import Floats, PolicyNetwork

CLIP_QUANTILES = (1.0, 0.99999)
"""Ends of the activations' scale that are tried; 1 keeps the largest activation seen."""

_LARGEST_ACTIVATION = 255
_FINE_STEPS = 254  # fine steps in a coarse one: the rest of rounding, at most half a step, fills 8 bits
_SMALLEST_RANGE = 1e-3  # of a channel, relative to the widest; keeps dead channels finite
_LARGEST_BIAS = 2.0**30  # as an integer; leaves the other half of int32 to the sum


def quantise(network: PolicyNetwork, views: NDArray[np.uint8], error: Callable[[Form], float]) -> Form:
    """The 8-bit form of `network` with the smallest `error`, of those that the clip quantiles give.

    Calibrated on `views` `[N, 16]`: boards as the network sees them.
    """
    return min((calibrate(network, views, quantile) for quantile in CLIP_QUANTILES), key=error)


def calibrate(network: PolicyNetwork, views: NDArray[np.uint8], clip_quantile: float) -> Form:
    """The 8-bit form of `network`, calibrated on `views` `[N, 16]`."""
    exact = np.eye(network.exponents, dtype=np.float32)[views]  # [N, 16, inputs], layer by layer
    rounded, scale = exact, np.float32(1)
    spread = np.ones(network.exponents, np.float32)  # [inputs]: what the channels were divided by
    convolutions = []
    for depth, layer in enumerate(network.convolutions):
        inputs = exact / spread
        sums = convolve(exact, layer.weights, depth) + layer.bias
        exact = np.maximum(sums, 0)
        next_spread = _spread(exact)
        weights = layer.weights * spread[:, None] / next_spread
        output_scale = _output_scale(exact / next_spread, clip_quantile)

        gram = neighbourhoods.gram(rounded, rounded, depth)
        change = neighbourhoods.gram(rounded, inputs - rounded, depth)
        flat = refit(weights.reshape(-1, layer.bias.size), gram, change)
        weight_scales = _weight_scales(flat, layer.bias / next_spread, scale)
        integers = round_weights(flat, weight_scales, gram)

        sums_rounded = convolve(rounded, (integers * weight_scales).reshape(weights.shape), depth)
        bias = _round_bias((sums / next_spread - sums_rounded).mean(axis=(0, 1)), scale * weight_scales)
        sums_rounded += bias * (scale * weight_scales)
        product = IntegerProduct(f"conv{depth}", integers, weight_scales, bias, scale)
        convolutions.append(QuantizedConvolution(product, output_scale))
        rounded = np.clip(np.rint(sums_rounded / output_scale), 0, _LARGEST_ACTIVATION) * output_scale
        spread, scale = next_spread, output_scale
    dense = _calibrate_dense(network, exact, rounded, spread, scale)
    return Form(np.eye(network.exponents, dtype=np.uint8), tuple(convolutions), dense)


def _calibrate_dense(
    network: PolicyNetwork, exact: Floats, rounded: Floats, spread: Floats, scale: np.float32
) -> QuantizedDense:
    logits = exact.reshape(len(exact), -1) @ network.dense_weights + network.dense_bias
    weights = network.dense_weights * np.tile(spread, 16)[:, None]
    coarse_scales = _weight_scales(weights, network.dense_bias, scale)
    coarse = np.rint(weights / coarse_scales)
    fine_scales = coarse_scales / np.float32(_FINE_STEPS)
    fine = np.rint((weights - coarse * coarse_scales) / fine_scales)

    logits_rounded = rounded.reshape(len(rounded), -1) @ (coarse * coarse_scales + fine * fine_scales)
    bias = _round_bias((logits - logits_rounded).mean(axis=0), scale * fine_scales)
    return QuantizedDense(
        IntegerProduct(
            "dense",
            np.concatenate([coarse, fine], axis=1).clip(-LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int8),
            np.concatenate([coarse_scales, fine_scales]),
            np.concatenate([np.zeros_like(bias), bias]),
            scale,
        )
    )


def _spread(activations: Floats) -> Floats:
    """`[channels]`: root of each channel's range, relative to the widest."""
    ranges = activations.max(axis=(0, 1))
    widest = ranges.max() or np.float32(1)
    spread: Floats = np.sqrt(np.maximum(ranges / widest, np.float32(_SMALLEST_RANGE)))
    return spread


def _output_scale(activations: Floats, clip_quantile: float) -> np.float32:
    largest = np.quantile(activations, clip_quantile) or activations.max() or 1.0
    return np.float32(largest / _LARGEST_ACTIVATION)


def _weight_scales(weights: Floats, bias: Floats, input_scale: np.float32) -> Floats:
    """`[outputs]`: wide enough for the largest weight, and for the bias as a 32-bit integer."""
    largest = np.abs(weights).max(axis=0)
    for_bias = np.abs(bias) / (input_scale * np.float32(_LARGEST_BIAS / _FINE_STEPS))
    smallest = np.finfo(np.float32).tiny * 2.0**40
    scales: Floats = np.maximum(np.maximum(largest / LARGEST_WEIGHT, for_bias), smallest).astype(np.float32)
    return scales


def _round_bias(bias: Floats, scales: Floats) -> NDArray[np.int32]:
    integers: NDArray[np.int32] = np.rint(bias / scales).clip(-_LARGEST_BIAS, _LARGEST_BIAS).astype(np.int32)
    return integers
