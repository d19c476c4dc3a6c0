"""Muon: which weights it changes and how far, and that a run can switch to it."""

from pathlib import Path

import pytest
import torch
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training.errors import TrainingError
from octofold_training.learners.distil import Distillation
from octofold_training.learners.muon import HiddenMuon
from octofold_training.learners.student_run import CURVES, DistilOptions
from octofold_training.networks.build import build
from octofold_training.run.loop import resume, train
from torch import nn

ARCHITECTURE = {"kind": "cnn", "layers": 3, "channels": 24, "exponents": 16}
HIDDEN = {"convolutions.1.weight", "convolutions.2.weight"}


def _with_gradients() -> nn.Module:
    torch.manual_seed(1)
    network = build(ARCHITECTURE)
    one_hot = torch.eye(16)[torch.randint(0, 12, (64, 16))].view(64, 4, 4, 16).permute(0, 3, 1, 2)
    (network(one_hot) * torch.randn(64, 4)).sum().backward()
    return network


def test_muon_updates_the_convolutions_between_hidden_layers_and_clears_their_gradients() -> None:
    network = _with_gradients()
    before = {name: weights.detach().clone() for name, weights in network.named_parameters()}
    HiddenMuon(network, weight_decay=0.01).step(1e-3)
    after = dict(network.named_parameters())
    assert {name for name in after if not torch.equal(after[name], before[name])} == HIDDEN
    assert {name for name in after if after[name].grad is None} == HIDDEN


def test_a_step_has_the_same_length_in_every_direction_and_that_of_adamw() -> None:
    network = _with_gradients()
    weights = network.get_parameter("convolutions.1.weight")
    before = weights.detach().clone()
    HiddenMuon(network, weight_decay=0.01).step(1e-3)
    step = (weights.detach() - before).flatten(1)
    along = torch.linalg.svdvals(step)
    assert along.max() < 2 * along.min()  # those of the gradient differ by a factor of 50 or more
    assert step.square().mean().sqrt().item() == pytest.approx(0.2e-3, rel=0.2)


def test_a_network_without_weights_for_muon_is_refused() -> None:
    for without in (
        ARCHITECTURE | {"layers": 1},
        {"kind": "pairs", "patterns": ["lines"], "features": 8, "dense": [12], "exponents": 16},
    ):
        with pytest.raises(TrainingError, match="needs convolutions between hidden layers"):
            HiddenMuon(build(without), weight_decay=0.01)


def test_a_run_can_switch_to_muon(teacher: NTupleNetwork, tmp_path: Path) -> None:
    def run(positions: float, muon: bool) -> Distillation:
        options = DistilOptions(batch_size=16, slices=2, warm_up=64.0, positions=positions, muon=muon)
        return Distillation(options, ARCHITECTURE, teacher)

    began = run(320.0, muon=False)
    train(began, tmp_path / "run", tmp_path / "net", CURVES, lambda _: None)
    turned = run(640.0, muon=True)
    train(turned, tmp_path / "run", tmp_path / "net", CURVES, lambda _: None)
    assert turned.positions > began.positions
    turned_back = run(960.0, muon=False)
    resume(turned_back, tmp_path / "run")
    for name, weights in turned.network.named_parameters():
        assert torch.equal(weights, turned_back.network.get_parameter(name))
    assert turned_back.learn().positions > turned.positions
