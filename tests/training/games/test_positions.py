"""The pool of positions: its games stay legal, each half has its owner, ended ones restart as they should."""

import numpy as np
import pytest
from octofold_game import rules
from octofold_game.bitboards import pack, unpack
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training.games import positions
from octofold_training.games.positions import PositionPool
from octofold_training.games.stages import stages

NEARLY_OVER = np.array([[1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 9, 10, 11, 11]], np.uint8)  # ends with some move
LATE = np.array([[1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 10, 12, 13, 14]], np.uint8)


def test_every_position_of_the_pool_can_be_played_on(teacher: NTupleNetwork) -> None:
    pool = PositionPool(batch_size=32, slices=2, seed=3)
    pool.warm_up(teacher)
    ended = 0
    for _ in range(150):
        boards = pool.batch()
        legal = rules.legal_moves(unpack(boards))
        assert legal.any(axis=1).all()
        values = teacher.action_values(boards)
        worst = np.where(legal, values, np.inf).argmin(axis=1)
        ended += pool.advance(values.argmax(axis=1).astype(np.int8), worst.astype(np.int8)).sum()
    assert ended > 0


def test_the_lengths_of_the_first_games_have_no_pattern(
    teacher: NTupleNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Games of one length come to their large merges at the same time. Of 1,000 that are drawn, a correlation
    above 0.2 is six standard deviations.
    """
    monkeypatch.setattr(positions, "_LONGEST_START_MOVES", 100)  # shorter than the games
    pool = PositionPool(batch_size=1000, slices=1, seed=3)
    pool.warm_up(teacher)
    exponents = unpack(pool.boards).astype(np.int64)
    sums = np.where(exponents > 0, 1 << exponents, 0).sum(axis=1)
    assert sums.std() > 50
    for lag in range(1, 100):
        assert abs(np.corrcoef(sums[lag:], sums[:-lag])[0, 1]) < 0.2, lag


def test_each_half_of_a_batch_follows_its_owner(teacher: NTupleNetwork) -> None:
    pool = PositionPool(batch_size=8, slices=1, seed=3)
    pool.warm_up(teacher)
    before = unpack(pool.batch())
    legal = rules.legal_moves(before)
    first, last = legal.argmax(axis=1), 3 - legal[:, ::-1].argmax(axis=1)
    pool.advance(first.astype(np.int8), last.astype(np.int8))
    expected, _ = rules.slide(before, np.concatenate([first[:4], last[4:]]))
    spawned = (unpack(pool.batch()) != expected).sum(axis=1)
    assert (spawned == 1).all()


def _pool_whose_games_end(stage_restarts: tuple[float, float]) -> PositionPool:
    """One late board is known; all 512 games are one move from their end, if the spawn is unlucky."""
    pool = PositionPool(batch_size=512, slices=1, seed=3, stage_restarts=stage_restarts)
    state = pool.state()
    late = stages(pack(LATE))[0]
    state["archive"][late, 0] = pack(LATE)[0]
    state["archived"][late] = 1
    pool.restore(state)
    pool.boards[:] = pack(NEARLY_OVER)[0]
    return pool


@pytest.mark.parametrize(
    ("stage_restarts", "half", "share"),
    [((0, 0), 0, 0.0), ((0, 0), 1, 0.0), ((0.5, 0), 0, 0.5), ((0, 1), 0, 0.0), ((0, 1), 1, 1.0)],
)
def test_a_share_of_the_ended_games_restarts_from_a_stage_that_was_reached(
    stage_restarts: tuple[float, float], half: int, share: float
) -> None:
    pool = _pool_whose_games_end(stage_restarts)
    moves = np.full(512, 3, np.int8)
    ended = pool.advance(moves, moves)
    late = pool.boards == pack(LATE)[0]
    assert ended.mean() > 0.2
    assert not late[~ended].any()
    games = slice(256 * half, 256 * (half + 1))
    assert late[games][ended[games]].mean() == pytest.approx(share, abs=0.15)


def test_stages_that_few_games_reach_come_as_often_as_the_others(teacher: NTupleNetwork) -> None:
    pool = PositionPool(batch_size=256, slices=1, seed=3, stage_restarts=(1.0, 1.0))
    pool.warm_up(teacher)
    state = pool.state()
    state["archived"][:] = 0
    state["archive"][0, :] = pack(NEARLY_OVER)[0]
    state["archived"][0] = 5_000
    state["archive"][stages(pack(LATE))[0], 0] = pack(LATE)[0]
    state["archived"][stages(pack(LATE))[0]] = 1
    pool.restore(state)
    pool.boards[:] = pack(NEARLY_OVER)[0]
    moves = np.full(256, 3, np.int8)
    ended = pool.advance(moves, moves)
    assert (pool.boards[ended] == pack(LATE)[0]).mean() == pytest.approx(0.5, abs=0.15)


def test_a_game_that_enters_a_stage_leaves_its_board_there() -> None:
    pool = PositionPool(batch_size=2, slices=1, seed=3)
    before = np.array([[10, 9, 8, 7, 6, 5, 4, 3, 2, 2, 0, 0, 0, 0, 0, 0]], np.uint8)  # tiles of 2,048
    before[0, 9] = 0  # of 2,044: a spawn of 4 enters stage 1
    pool.boards[:] = pack(before)[0]
    moves = np.full(2, 3, np.int8)
    for _ in range(60):
        pool.boards[:] = pack(before)[0]
        pool.advance(moves, moves)
        entered = stages(pool.boards) == 1
        if entered.any():
            break
    assert pool.state()["archived"][1] == entered.sum()
    assert pool.state()["archive"][1, 0] == pool.boards[entered][0]
