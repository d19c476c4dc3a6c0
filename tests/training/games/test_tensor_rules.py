"""The rules in tensor operations are those of the game, move for move."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from octofold_game import rules
from octofold_training.games.tensor_rules import TensorRules

COUNT = 100_000


def boards_of(largest: int, empty: float) -> NDArray[np.uint8]:
    random = np.random.default_rng(largest)
    boards = random.integers(1, largest + 1, (COUNT // 5, 16))
    return np.where(random.random(boards.shape) < empty, 0, boards).astype(np.uint8)


@pytest.fixture(scope="module")
def boards() -> NDArray[np.uint8]:
    """100,000 boards, from crowded ones with many merges to empty ones, with all exponents up to 17."""
    kinds = [(2, 0.1), (4, 0.3), (9, 0.6), (17, 0.0), (17, 0.9)]
    found = np.concatenate([boards_of(largest, empty) for largest, empty in kinds])
    assert found.shape == (COUNT, 16)
    assert found.max() == rules.LARGEST_EXPONENT
    return found


def test_legal_moves_are_those_of_the_game(boards: NDArray[np.uint8]) -> None:
    found = TensorRules().legal(torch.from_numpy(boards)).numpy()
    expected = rules.legal_moves(boards)
    assert 0.02 < expected.mean() < 0.98
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("move", range(4))
def test_slides_and_rewards_are_those_of_the_game(boards: NDArray[np.uint8], move: int) -> None:
    moves = np.full(COUNT, move)
    after, rewards = TensorRules().slide(torch.from_numpy(boards), torch.from_numpy(moves))
    expected, points = rules.slide(boards, moves)
    assert np.array_equal(after.numpy(), expected)
    assert np.array_equal(rewards.numpy(), points)


def test_every_board_has_its_own_move(boards: NDArray[np.uint8]) -> None:
    moves = np.random.default_rng(1).integers(0, 4, COUNT)
    before = boards.copy()
    after, rewards = TensorRules().slide(torch.from_numpy(boards), torch.from_numpy(moves))
    expected, points = rules.slide(boards, moves)
    assert np.array_equal(after.numpy(), expected)
    assert np.array_equal(rewards.numpy(), points)
    assert np.array_equal(boards, before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_rules_are_the_same_on_a_gpu(boards: NDArray[np.uint8]) -> None:
    device = torch.device("cuda")
    moves = torch.from_numpy(np.random.default_rng(1).integers(0, 4, COUNT))
    here, there = TensorRules(), TensorRules(device)
    on_gpu = torch.from_numpy(boards).to(device)
    assert torch.equal(here.legal(torch.from_numpy(boards)), there.legal(on_gpu).cpu())
    for mine, theirs in zip(
        here.slide(torch.from_numpy(boards), moves), there.slide(on_gpu, moves.to(device)), strict=True
    ):
        assert torch.equal(mine, theirs.cpu())
