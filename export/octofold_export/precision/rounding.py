"""Rounds a layer's weights to integers so that its sums stay as they were, rather than each weight.

Two steps, both least squares over the inputs that the layer really gets: first the weights are refitted to
inputs that are rounded themselves; then they are rounded one input at a time, each time moving the error to
the inputs still to come (Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative
Pre-trained Transformers", ICLR 2023; the greedy form of Hassibi and Stork's optimal brain surgeon).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from octofold_export.handmade.weights import Floats

LARGEST_WEIGHT = 127
_DAMPING = 0.01  # of the mean square of an input: keeps rarely active inputs from taking all error
_BLOCK = 64  # inputs whose errors reach the later ones together


def refit(weights: Floats, gram: NDArray[np.float64], change: NDArray[np.float64]) -> Floats:
    """Weights `[inputs, outputs]` that give with the rounded inputs what `weights` gave with the exact ones.

    `gram` is the mean of `rounded.T @ rounded`, `change` of `rounded.T @ (exact - rounded)`.
    """
    correction = np.linalg.solve(_damped(gram), change @ weights)
    return (weights + correction).astype(np.float32)


def round_weights(weights: Floats, scales: Floats, gram: NDArray[np.float64]) -> NDArray[np.int8]:
    """Integers `[inputs, outputs]`, in steps of `scales` `[outputs]`, for inputs of Gram matrix `gram`."""
    remaining = weights.astype(np.float64)
    integers = np.zeros(weights.shape, np.int8)
    # Row i of this upper factor: how the error of input i is best spread over inputs i and later.
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
    mean_square = gram.diagonal().mean() or 1.0  # inputs that are always 0 leave the weights as they are
    damped: NDArray[np.float64] = gram + _DAMPING * mean_square * np.eye(len(gram))
    return damped
