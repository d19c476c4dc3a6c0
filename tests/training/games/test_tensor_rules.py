"""The rules in tensor operations are those of the game, move for move."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from octofold_game import rules
from octofold_training.games.environment import Environment, MoveTable
from octofold_training.games.tensor_rules import TensorRules

COUNT = 100_000
CPU = torch.device("cpu")
TABLE = MoveTable(CPU)


def check_slides(boards: NDArray[np.uint8], moves: NDArray[np.int64]) -> None:
    """Slides and rewards are those of the game, and the boards stay as they were."""
    before = boards.copy()
    after, lines = TensorRules().slide(torch.from_numpy(boards), torch.from_numpy(moves))
    expected, points = rules.slide(boards, moves)
    assert np.array_equal(after.numpy(), expected)
    assert np.array_equal(TABLE.points[lines].sum(dim=1).numpy(), points)
    assert np.array_equal(boards, before)


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
    check_slides(boards, np.full(COUNT, move))


def test_every_board_has_its_own_move(boards: NDArray[np.uint8]) -> None:
    check_slides(boards, np.random.default_rng(1).integers(0, 4, COUNT))


def test_an_environment_plays_the_same_games_by_either_rules() -> None:
    def games(chosen: TensorRules | None) -> Environment:
        return Environment(64, 16, "merges", 0.0, torch.Generator().manual_seed(5), TABLE, chosen)

    one, other = games(None), games(TensorRules())
    preferences = torch.Generator().manual_seed(6)
    for _ in range(300):
        moves = (torch.rand(64, 4, generator=preferences) * one.legal).argmax(dim=1)
        (reward, ended), (other_reward, other_ended) = one.step(moves), other.step(moves)
        torch.testing.assert_close(reward, other_reward)  # the lines are added up in another order
        assert torch.equal(ended, other_ended)
        assert torch.equal(one.boards, other.boards)
        assert torch.equal(one.legal, other.legal)
    scores = one.scores()
    assert scores.games > 64
    assert scores == other.scores()


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
