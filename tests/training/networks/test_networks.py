"""The networks: their sizes, and a fast convolution that equals the ordinary one."""

from itertools import combinations

import pytest
import torch
from octofold_training.networks.architectures import ArchitectureError
from octofold_training.networks.build import build, count_weights
from octofold_training.networks.cnn import CNN
from octofold_training.networks.pair_network import PairNetwork, sums_by_lookup, sums_by_matmul
from torch import Tensor, nn

CNN5 = {"kind": "cnn", "layers": 5, "channels": 222, "exponents": 16}
PAIRED = {
    "kind": "pairs",
    "patterns": ["lines", "squares"],
    "features": 8,
    "dense": [12],
    "exponents": 16,
}
SMALL = {"kind": "cnn", "layers": 3, "channels": 12, "exponents": 16}


@pytest.mark.parametrize(
    ("layers", "channels", "weights"), [(5, 222, 818_074), (4, 256, 820_228), (2, 436, 817_068)]
)
def test_networks_have_the_published_number_of_weights(layers: int, channels: int, weights: int) -> None:
    network = build({"kind": "cnn", "layers": layers, "channels": channels, "exponents": 16})
    assert count_weights(network) == weights


def _with_ordinary_convolutions(network: CNN, one_hot: Tensor) -> Tensor:
    x = one_hot
    for convolution in network.convolutions:
        x = torch.relu(convolution(nn.functional.pad(x, (0, 1, 0, 1))))
    logits: Tensor = network.dense(x.flatten(1))
    return logits


def test_forward_and_gradients_are_those_of_ordinary_padded_convolutions() -> None:
    torch.manual_seed(0)
    network = build(SMALL)
    assert isinstance(network, CNN)
    exponents = torch.randint(0, 16, (9, 16))
    one_hot = torch.eye(16)[exponents].view(9, 4, 4, 16).permute(0, 3, 1, 2)
    fast, ordinary = network(one_hot), _with_ordinary_convolutions(network, one_hot)
    torch.testing.assert_close(fast, ordinary)
    gradients = [
        torch.autograd.grad((answer * torch.arange(4)).sum(), list(network.parameters()))
        for answer in (fast, ordinary)
    ]
    for of_fast, of_ordinary in zip(*gradients, strict=True):
        torch.testing.assert_close(of_fast, of_ordinary, rtol=1e-4, atol=1e-4)


def test_a_pair_network_adds_up_the_table_entries_of_every_pair_of_four_cells() -> None:
    torch.manual_seed(0)
    network = build(PAIRED)
    assert isinstance(network, PairNetwork)
    exponents = torch.randint(0, 16, (5, 16))
    one_hot = torch.eye(16)[exponents].view(5, 4, 4, 16).permute(0, 3, 1, 2)
    for n, board in enumerate(exponents.view(5, 4, 4)):
        squares = [board[r : r + 2, c : c + 2].flatten() for r in range(3) for c in range(3)]
        features = []
        for table, places in zip(network.tables, [[*board, *board.T], squares], strict=True):
            by_pair = table.view(6, 16, 16, -1)
            for cells in places:
                pairs = enumerate(combinations(cells.tolist(), 2))
                features.append(sum(by_pair[pair, first, second] for pair, (first, second) in pairs))
        x = torch.relu(torch.cat(features))
        x = network.dense[1](torch.relu(network.dense[0](x)))
        torch.testing.assert_close(network(one_hot)[n], x)


def test_tables_have_the_same_sums_and_gradients_on_a_gpu_and_a_cpu() -> None:
    torch.manual_seed(0)
    pairs = torch.arange(6) * 16**2
    rows = torch.randint(0, 16**2, (40, 6)) + pairs
    sums, gradients = [], []
    for look_up in (sums_by_lookup, sums_by_matmul):
        table = torch.linspace(-1, 1, 6 * 16**2 * 3).view(-1, 3).requires_grad_()
        found = look_up(rows, table, torch.float32)
        found.square().sum().backward()
        sums.append(found)
        gradients.append(table.grad)
    torch.testing.assert_close(*sums)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        (PAIRED | {"patterns": ["rows"]}, r"patterns\[0\] is 'rows', which is none of lines, squares"),
        (PAIRED | {"patterns": ["lines", "lines"]}, "must not repeat a pattern"),
        (PAIRED | {"patterns": "lines"}, "patterns is 'lines'"),
        (PAIRED | {"dense": [8] * 9}, "dense has the length 9; it must be at most 8"),
        (PAIRED | {"dense": 8}, "dense is 8, not a list"),
        (PAIRED | {"dense": [0]}, r"dense\[0\] is 0; it must be at least 1"),
        ({"kind": "pairs", "patterns": ["lines"], "features": 8, "exponents": 16}, "dense is missing"),
        (PAIRED | {"head": "distance"}, "head is 'distance', which is none of policy, value"),
        (PAIRED | {"head": "value"}, "value_scale is missing"),
        (PAIRED | {"head": "value", "value_scale": 0}, "value_scale is 0; it must be above 0"),
        (PAIRED | {"value_scale": 300}, "value_scale must be absent unless head"),
        (
            PAIRED | {"head": "value", "value_scale": float("inf")},
            "value_scale must be a finite number of points, got inf",
        ),
    ],
)
def test_other_impossible_networks_are_refused_by_name(architecture: dict[str, object], message: str) -> None:
    with pytest.raises(ArchitectureError, match=message):
        build(architecture)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "transformer"}, "kind is 'transformer', which is none of cnn, mlp"),
        ({"kind": 5}, "kind is 5"),
        ({"channels": 0}, "channels is 0; it must be at least 1"),
        ({"channels": True}, "channels is true, not a whole number"),
        ({"chanels": 3}, "has no 'chanels'; did you mean channels"),
    ],
)
def test_an_impossible_cnn_is_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(ArchitectureError, match=message):
        build(CNN5 | change)
