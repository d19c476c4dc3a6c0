"""What turns gradients into updates: AdamW for all weights, or Muon for the matrices between hidden layers.

Muon (Jordan and others, "Muon: An optimizer for hidden layers in neural networks", 2024) makes all singular
values of an update alike, and learns more from each. That takes matrix products of its own, as large as the
layer: convolutions, which use their weights on many cells of every board, hardly notice; layers that use them
once a board would wait for it longer than for their gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

OPTIMISERS = ("adamw", "muon")


class Optimiser:
    """Steps all weights of a network along their gradients.

    With "muon", the weights that the network names in `hidden_matrices` follow Muon, scaled so that AdamW's
    learning rate and weight decay suit them too (Liu and others, "Muon is Scalable for LLM Training", 2025);
    AdamW takes the others. A convolution is the matrix `[C_out, C_in * 4]` of what its window sees.
    """

    def __init__(self, network: nn.Module, name: str, weight_decay: float) -> None:
        """Raises `ValueError` for an optimiser that is not one of `OPTIMISERS`, or that has nothing to do."""
        self._hidden = network.hidden_matrices() if name == "muon" else []
        others = {id(weights) for weights in self._hidden}
