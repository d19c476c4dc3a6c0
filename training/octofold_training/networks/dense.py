"""Dense layers. A ReLU follows each layer except the last, whose output is float32."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


def dense_layers(widths: Sequence[int]) -> nn.ModuleList:
    """Return layers from `widths[0]` inputs to `widths[-1]` outputs, with fresh weights."""
    layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(widths))
    initialize(layers[:-1])
    return layers


def through_dense(x: Tensor, layers: Iterable[nn.Module]) -> Tensor:
    """Apply dense layers: `[N, inputs]` to `[N, outputs] float32`. Hidden layers have the type of `x`."""
    *hidden, (weight, bias) = parameters(layers)
    for hidden_weight, hidden_bias in hidden:
        x = torch.relu(linear(x, hidden_weight.to(x.dtype), hidden_bias.to(x.dtype)))
    return linear(x.float(), weight, bias)


def parameters(layers: Iterable[nn.Module]) -> list[tuple[Tensor, Tensor]]:
    """Return the weight and the bias of each layer."""
    return [(layer.get_parameter("weight"), layer.get_parameter("bias")) for layer in layers]


def initialize(layers: Iterable[nn.Module]) -> None:
    """Initialize layers before a ReLU so that they keep the variance of their inputs (He et al., 2015)."""
    for weight, bias in parameters(layers):
        nn.init.kaiming_normal_(weight, nonlinearity="relu")
        nn.init.zeros_(bias)
