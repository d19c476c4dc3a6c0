"""Rounds a layer's weights to integers so that its sums change as little as possible.

Both steps use least squares over the real inputs of the layer. First the weights are refitted to the rounded
inputs. Then they are rounded one input at a time, and the error is moved to the remaining inputs (Frantar et
al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", ICLR 2023; the
greedy form of Hassibi and Stork's optimal brain surgeon).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from octofold_export.handmade.weights import Floats

LARGEST_WEIGHT = 127
_DAMPING = 0.01  # share of the mean square of an input: keeps rarely active inputs from taking all error
_BLOCK = 64  # number of inputs whose errors move to later inputs together


def refit(weights: Floats, gram: NDArray[np.float64], change: NDArray[np.float64]) -> Floats:
    """Fit weights `[inputs, outputs]` to rounded inputs, so that they give the sums of the exact inputs.

    `gram` is the mean of `rounded.T @ rounded`, `change` of `rounded.T @ (exact - rounded)`.
    """
    correction = np.linalg.solve(_damped(gram), change @ weights)
    return (weights + correction).astype(np.float32)


def round_weights(weights: Floats, scales: Floats, gram: NDArray[np.float64]) -> NDArray[np.int8]:
    """Round to integers `[inputs, outputs]` in steps of `scales` `[outputs]`, for a Gram matrix of inputs."""
    remaining = weights.astype(np.float64)
    integers = np.zeros(weights.shape, np.int8)
    # Row i of this upper factor is the best distribution of the error of input i over itself and later
    # inputs.
    spread = np.linalg.cholesky(np.linalg.inv(_damped(gram))).T
    for start in range(0, len(weights), _BLOCK):
        end = min(start + _BLOCK, len(weights))
        errors = np.zeros((end - start, weights.shape[1]))
        for row in range(start, end):
            integers[row] = np.rint(remaining[row] / scales).clip(-LARGEST_WEIGHT, LARGEST_WEIGHT)
            errors[row - start] = (remaining[row] - integers[row] * scales) / spread[row, row]
            remaining[row + 1 : end] -= np.outer(spread[row, row + 1 : end], errors[row - start])
        remaining[end:] -= spread[start:end, end:].T @ errors
    return integers


def _damped(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    mean_square = gram.diagonal().mean() or 1.0  # 1 if all inputs are 0
    damped: NDArray[np.float64] = gram + _DAMPING * mean_square * np.eye(len(gram))
    return damped
