"""The published networks have the exact numbers of weights, and compute what their authors describe."""

from typing import Any

import numpy as np
import pytest
import torch
from octofold_game.symmetries import CELLS
from octofold_papers.dqn_notebook.networks import QNetwork
from octofold_papers.supervised.networks import PaddedCNN, SymmetricCNN
from octofold_papers.turbozero.network import ResidualNetwork
from octofold_training.networks.architectures import ArchitectureError
from octofold_training.networks.build import build, count_weights, interface_of
from octofold_training.networks.interfaces import BoardEncoder
from torch import Tensor, nn
from torch.nn import functional

NUMBER_READERS: list[tuple[dict[str, Any], int]] = [
    ({"kind": "q_network", "form": "simple", "value_scale": 100}, 10_692),
    ({"kind": "q_network", "form": "dropout", "value_scale": 100}, 17_924),
    ({"kind": "q_network", "form": "conv", "value_scale": 100}, 66_452),
    ({"kind": "residual", "channels": 16, "blocks": 6, "head_blocks": 3, "head_width": 32}, 72_917),
]


def one_hot(boards: Tensor) -> Tensor:
    return torch.eye(16)[boards].view(-1, 4, 4, 16).permute(0, 3, 1, 2)


@pytest.fixture
def boards() -> Tensor:
    torch.manual_seed(0)
    return torch.randint(0, 16, (9, 16))


@pytest.mark.parametrize(("architecture", "weights"), NUMBER_READERS)
def test_networks_have_the_published_number_of_weights(architecture: dict[str, Any], weights: int) -> None:
    assert count_weights(build(architecture)) == weights


@pytest.mark.parametrize(("padding", "zeros"), [("left_above", (1, 0, 1, 0)), ("around", (1, 1, 1, 1))])
def test_a_padded_cnn_equals_ordinary_convolutions(
    boards: Tensor, padding: str, zeros: tuple[int, int, int, int]
) -> None:
    network = build({"kind": "padded_cnn", "layers": 3, "channels": 7, "padding": padding, "exponents": 16})
    assert isinstance(network, PaddedCNN)
    x = one_hot(boards)
    for convolution in network.convolutions:
        x = torch.relu(convolution(functional.pad(x, zeros)))
    expected = network.dense(x.flatten(1))
    found = network(one_hot(boards))
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(y.square().sum(), list(network.parameters())) for y in (found, expected)]
    for of_found, of_expected in zip(*gradients, strict=True):
        torch.testing.assert_close(of_found, of_expected, rtol=1e-4, atol=1e-4)


def test_the_symmetric_network_reads_eight_views_through_the_same_convolutions(boards: Tensor) -> None:
    network = build({"kind": "symmetric_cnn", "layers": 2, "channels": 5, "exponents": 16})
    assert isinstance(network, SymmetricCNN)
    towers = []
    for cells in CELLS:
        x = one_hot(boards[:, torch.from_numpy(cells)])
        for convolution in network.convolutions:
            x = torch.relu(convolution(functional.pad(x, (0, 1, 0, 1))))
        towers.append(x.flatten(1))
    torch.testing.assert_close(network(one_hot(boards)), network.dense(torch.cat(towers, dim=1)))


def test_the_convolutional_q_network_matches_that_of_its_authors(boards: Tensor) -> None:
    network = build({"kind": "q_network", "form": "conv", "value_scale": 100})
    assert isinstance(network, QNetwork)
    # Even kernels with padding "same" get more zeros on the right and below.
    plane = boards.float().view(-1, 1, 4, 4)
    sides = [(0, 0, 0, 0), (0, 1, 0, 1), (1, 1, 1, 1), (1, 2, 1, 2)]
    features = [
        torch.relu(functional.conv2d(functional.pad(plane, side), layer.weight, layer.bias))  # type: ignore[arg-type]
        for side, layer in zip(sides, network.convolutions, strict=True)
    ]
    x = torch.relu(network.hidden[0](torch.cat(features, dim=1).flatten(1)))
    torch.testing.assert_close(network(boards.float()), network.out(x))


def test_the_dropout_q_network_drops_only_in_training(boards: Tensor) -> None:
    network = build({"kind": "q_network", "form": "dropout", "value_scale": 100})
    assert isinstance(network, QNetwork)
    torch.manual_seed(1)
    found = network(boards.float())
    torch.manual_seed(1)  # half of the first two layers, as in the notebook
    x = functional.dropout(torch.relu(network.hidden[0](boards.float())), 0.5)
    x = functional.dropout(torch.relu(network.hidden[1](x)), 0.5)
    torch.testing.assert_close(found, network.out(torch.relu(network.hidden[2](x))))
    network.eval()
    torch.testing.assert_close(network(boards.float()), network(boards.float()))


def test_boards_are_encoded_for_the_network_and_its_answers_put_into_our_order() -> None:
    boards = torch.arange(16).view(1, 16)
    network = build({"kind": "q_network", "form": "simple", "value_scale": 100})
    interface = interface_of(network)
    encode = BoardEncoder(interface, 16, torch.float32)
    assert encode(boards).tolist() == [list(map(float, range(16)))]
    answer = torch.tensor([[1.0, 2.0, 3.0, 4.0]])  # up, down, left, right
    assert interface.by_move(answer).tolist() == [[1.0, 4.0, 2.0, 3.0]]
    plane = interface_of(ResidualNetwork)
    assert BoardEncoder(plane, 16, torch.float32)(boards).shape == (1, 1, 4, 4)
    assert plane.by_move(answer).tolist() == [[4.0, 3.0, 2.0, 1.0]]  # of left, down, right, up
    planes = BoardEncoder(interface_of(nn.Module), 16, torch.float32)(boards)
    assert np.array_equal(planes.argmax(dim=1).flatten(1), boards)


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        (
            {"kind": "padded_cnn", "layers": 2, "channels": 3, "padding": "left", "exponents": 16},
            "padding is 'left', which is none of left_above, around",
        ),
        ({"kind": "q_network", "form": "deep", "value_scale": 1}, "form is 'deep'"),
        ({"kind": "q_network", "form": "conv", "value_scale": 0}, "value_scale is 0"),
        ({"kind": "q_network", "form": "conv"}, "value_scale is missing"),
        ({**NUMBER_READERS[-1][0], "head": "value"}, "has no 'head'"),
    ],
)
def test_impossible_networks_are_refused_by_name(architecture: dict[str, Any], message: str) -> None:
    with pytest.raises(ArchitectureError, match=message):
        build(architecture)
