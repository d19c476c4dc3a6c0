"""The batched environment follows the rules, counts points correctly, and never waits for the device."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from octofold_game import rules
from octofold_training.games.tensor_environment import Environment, MoveTable, spawn
from torch._subclasses.fake_tensor import FakeTensorMode

BOARDS = arrays(np.uint8, (40, 16), elements=st.integers(0, rules.LARGEST_EXPONENT), fill=st.just(0))


@pytest.fixture(scope="module")
def table() -> MoveTable:
    return MoveTable(torch.device("cpu"))


def any_legal(environment: Environment, generator: np.random.Generator) -> torch.Tensor:
    preferences = torch.from_numpy(generator.random((len(environment.boards), 4)))
    return (preferences * environment.legal).argmax(dim=1)


def _environment(games: int = 64, restart_share: float = 0.0, exponents: int = 16) -> Environment:
    generator = torch.Generator().manual_seed(5)
    return Environment(games, exponents, generator, restart_share=restart_share)


@given(boards=BOARDS)
def test_slides_scores_and_legal_moves_follow_the_rules(table: MoveTable, boards: np.ndarray) -> None:
    tensor = torch.from_numpy(boards)
    for move in range(4):
        afterstates, lines = table.slide(tensor, torch.full((len(boards),), move))
        expected, points = rules.slide(boards, np.full(len(boards), move))
        np.testing.assert_array_equal(afterstates.numpy(), expected)
        np.testing.assert_array_equal(table.points[lines].sum(dim=1).numpy(), points)
    np.testing.assert_array_equal(table.legal(tensor).numpy(), rules.legal_moves(boards))


def test_a_spawn_is_a_2_or_with_probability_a_tenth_a_4_in_any_empty_cell() -> None:
    board = torch.tensor([1, 0, 2, 0, 3, 0, 4, 5, 6, 7, 8, 9, 1, 2, 3, 0], dtype=torch.uint8)
    count = 20_000
    spawned = spawn(board.expand(count, 16), torch.rand(count, 2, generator=torch.Generator().manual_seed(1)))
    new = spawned - board
    assert ((new != 0).sum(dim=1) == 1).all()
    shares = (new != 0).float().mean(dim=0)
    assert shares[board != 0].sum() == 0
    assert shares[board == 0].tolist() == pytest.approx([0.25] * 4, abs=0.02)
    assert new.max() == 2
    assert (new == 2).sum().item() / count == pytest.approx(0.1, abs=0.01)


def test_games_follow_the_rules_to_their_end_and_start_again() -> None:
    environment, generator = _environment(), np.random.default_rng(2)
    score, finished = np.zeros(64, np.int64), list[int]()
    for _ in range(400):
        before, chosen = environment.boards.numpy().copy(), any_legal(environment, generator)
        over = environment.step(chosen).numpy()
        afterstates, points = rules.slide(before, chosen.numpy())
        after = environment.boards.numpy()
        assert ((after != afterstates).sum(axis=1)[~over] == 1).all()
        assert ((after[over] != 0).sum(axis=1) == 2).all()
        np.testing.assert_array_equal(environment.legal.numpy(), rules.legal_moves(after))
        assert environment.legal.any(dim=1).all()
        score += points
        finished += score[over].tolist()
        score[over] = 0
    scores = environment.scores()
    assert len(finished) >= 65
    assert (scores.games, scores.best) == (len(finished), max(finished))
    assert scores.average == pytest.approx(np.mean(finished))
    assert environment.scores().games == 0


def test_a_game_that_outgrows_the_network_ends_with_its_points() -> None:
    environment = _environment(games=2)
    state = environment.state()
    state["boards"] = torch.tensor([[15, 15] + [0] * 14, [14, 14] + [0] * 14], dtype=torch.uint8)
    environment.restore(state)
    assert environment.step(torch.tensor([3, 3])).tolist() == [True, False]
    assert environment.scores().best == 65_536


def test_some_games_start_at_boards_of_recent_games() -> None:
    environment, generator = _environment(games=500, restart_share=0.5), np.random.default_rng(3)
    for move in range(60):
        if move % 20 == 19:
            environment.remember(environment.boards)
        environment.step(any_legal(environment, generator))
    remembered = {tuple(board) for board in environment.state()["history"].tolist()}
    environment.restart()
    restarted = [tuple(board) in remembered for board in environment.boards.tolist()]
    assert np.mean(restarted) == pytest.approx(0.5, abs=0.1)
    for again, board in zip(restarted, environment.boards.tolist(), strict=True):
        assert again or sum(exponent > 0 for exponent in board) == 2
    assert environment.legal.any(dim=1).all()


def test_a_restarted_game_does_not_count_as_a_score() -> None:
    environment, generator = _environment(games=50, restart_share=1.0), np.random.default_rng(4)
    environment.remember(environment.boards)
    environment.restart()
    ended = sum(int(environment.step(any_legal(environment, generator)).sum()) for _ in range(300))
    assert ended > 50
    assert environment.scores().games == 0


def test_no_step_reads_a_value_back_from_the_device() -> None:
    environment = _environment(restart_share=0.5)
    with FakeTensorMode(allow_non_fake_inputs=True):  # meta tensors have no values to read
        moves = torch.zeros(64, dtype=torch.int64)
        environment.remember(environment.boards)
        environment.step(moves)
