"""Micro-batches: whatever their size, the network learns what it would from the whole batch."""

import pytest
import torch
from octofold_papers.supervised.imitation import MicroBatches
from octofold_training.networks.build import build
from torch import Tensor, nn

CNN = {"kind": "cnn", "layers": 2, "channels": 16, "exponents": 16}
PAIRS = {"kind": "pairs", "patterns": ["lines"], "features": 8, "dense": [12], "exponents": 16}


def _boards(count: int) -> Tensor:
    return torch.eye(16)[torch.randint(0, 12, (count, 16))].view(-1, 4, 4, 16).permute(0, 3, 1, 2)


def _gradients(network: nn.Module, answers: Tensor, weights: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad((answers * weights).sum(), list(network.parameters())))


@pytest.mark.parametrize("architecture", [CNN, PAIRS], ids=["cnn", "pairs"])
@pytest.mark.parametrize("size", [1, 7, 32, 1000])
def test_answers_and_gradients_are_those_of_the_whole_batch(
    architecture: dict[str, object], size: int
) -> None:
    torch.manual_seed(1)
    network, boards, weights = build(architecture), _boards(32), torch.randn(32, 4)
    whole, split = network(boards), MicroBatches(network, size, threads=3)(boards)
    torch.testing.assert_close(split, whole)
    expected, actual = _gradients(network, whole, weights), _gradients(network, split, weights)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_same_batch_gives_the_same_gradients_whichever_thread_ends_first() -> None:
    network, boards, weights = build(CNN), _boards(64), torch.randn(64, 4)
    passes = MicroBatches(network, 4, threads=4)
    first, *others = (_gradients(network, passes(boards), weights) for _ in range(5))
    for other in others:
        assert all(torch.equal(*pair) for pair in zip(first, other, strict=True))


def test_what_fails_in_a_thread_is_raised() -> None:
    with pytest.raises(RuntimeError, match="shape"):
        MicroBatches(build(CNN), 4, threads=2)(_boards(16)[:, :9])
