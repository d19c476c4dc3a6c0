"""Wider networks that answer as a narrower one does, so that a run need not begin with random weights.

Every new unit is a copy of an old one, and the copies divide the old one's weights in the next layer: Chen,
Goodfellow and Shlens, "Net2Net: Accelerating Learning via Knowledge Transfer", ICLR 2016. There, noise makes
the copies different. Here, each output divides the weights in its own way, so the copies' gradients differ
from the first update on, and the answers stay. Where there is one output, the copies before it differ in the
size of their gradients only, and take longer to part.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from octofold_training.networks.architectures import Architecture, complete, require_architecture
from octofold_training.networks.build import build
from octofold_training.networks.pair_network import PairNetwork


def fit(network: nn.Module, found: Architecture, wanted: Architecture, place: str, seed: int) -> nn.Module:
    """The network of a checkpoint for the recipe: itself, or a wider one if it is a narrower pair network.

    Args:
        network: as in the checkpoint.
        found: the architecture of the checkpoint.
        wanted: the architecture of the recipe.
        place: what an error begins with.
        seed: of the choice of units that are copied.

    Raises:
        TrainingError: the one cannot be made of the other.
    """
    found, wanted = complete(found), complete(wanted)
    if found == wanted or not _is_wider(wanted, found):
        require_architecture(wanted, found, place)
        return network
    return _widened(cast(PairNetwork, network), wanted, torch.Generator().manual_seed(seed))


def _is_wider(wanted: Architecture, found: Architecture) -> bool:
    """Whether both are pair networks that differ only in widths, none of them smaller."""
    if wanted["kind"] != "pairs" or {**found, **_widths(wanted)} != wanted:
        return False
    before, after = ([each["features"], *each["dense"]] for each in (found, wanted))
    return len(before) == len(after) and all(old <= new for old, new in zip(before, after, strict=True))


def _widths(architecture: Architecture) -> Architecture:
    return {name: architecture[name] for name in ("features", "dense")}


@torch.no_grad()
def _widened(network: PairNetwork, architecture: Architecture, random: torch.Generator) -> PairNetwork:
    wide = cast(PairNetwork, build(architecture))
    features = _copied(network.tables[0].shape[1], architecture["features"], random)
    for table, old_table in zip(wide.tables, network.tables, strict=True):
        table.copy_(old_table[:, features])
    places = network.dense[0].get_parameter("weight").shape[1] // network.tables[0].shape[1]
    inputs = _of_places(features, network.tables[0].shape[1], places)
    for layer, old_layer in zip(wide.dense, network.dense, strict=True):
        weight, old_weight = layer.get_parameter("weight"), old_layer.get_parameter("weight")
        outputs = _copied(len(old_weight), len(weight), random)
        weight.copy_(_shared_out(old_weight[outputs], inputs, random))
        layer.get_parameter("bias").copy_(old_layer.get_parameter("bias")[outputs])
        inputs = outputs
    return wide


def _copied(old: int, new: int, random: torch.Generator) -> Tensor:
    """Which of `old` units each of `new` units is a copy of, as evenly as possible: first each itself."""
    rounds = [torch.randperm(old, generator=random) for _ in range(new // old)]
    return torch.cat([torch.arange(old), *rounds])[:new]


def _of_places(features: Tensor, old: int, places: int) -> Tensor:
    """The same for the features of all places, which the first dense layer reads place by place."""
    return (torch.arange(places)[:, None] * old + features).flatten()


def _shared_out(weight: Tensor, inputs: Tensor, random: torch.Generator) -> Tensor:
    """Weights `[outputs, old inputs]` for `inputs` that are copies: they add up to those of the old input."""
    shares = 1 - torch.rand(len(weight), len(inputs), generator=random)  # never 0
    sums = torch.zeros_like(weight).index_add_(1, inputs, shares)
    return weight[:, inputs] * shares / sums[:, inputs]
