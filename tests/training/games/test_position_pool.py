"""The pool of positions: its games stay legal, teacher and student play half each, and ended games
restart."""

import numpy as np
import pytest
from octofold_game import rules
from octofold_game.bitboards import pack, unpack
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training.games import position_pool
from octofold_training.games.position_pool import PositionPool

NEARLY_OVER = np.array([[1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 9, 10, 11, 11]], np.uint8)  # a move ends it
LATE = np.array([[1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 10, 12, 13, 14]], np.uint8)


def test_every_position_of_the_pool_has_a_legal_move(teacher: NTupleNetwork) -> None:
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


def test_the_first_games_have_unrelated_lengths(
    teacher: NTupleNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Games of equal length reach their large merges at the same time. For 1,000 random lengths, a
    correlation of 0.2 is six standard deviations.
    """
    monkeypatch.setattr(position_pool, "_WARM_UP_MOVES", 100)  # so short that no game ends before
    pool = PositionPool(batch_size=1000, slices=1, seed=3)
    pool.warm_up(teacher)
    exponents = unpack(pool.boards).astype(np.int64)
    sums = np.where(exponents > 0, 1 << exponents, 0).sum(axis=1)
    assert sums.std() > 50
    for lag in range(1, 100):
        assert abs(np.corrcoef(sums[lag:], sums[:-lag])[0, 1]) < 0.2, lag


def test_each_half_of_a_batch_follows_its_player(teacher: NTupleNetwork) -> None:
    pool = PositionPool(batch_size=8, slices=1, seed=3)
    pool.warm_up(teacher)
    before = unpack(pool.batch())
    legal = rules.legal_moves(before)
    first, last = legal.argmax(axis=1), 3 - legal[:, ::-1].argmax(axis=1)
    pool.advance(first.astype(np.int8), last.astype(np.int8))
    expected, _ = rules.slide(before, np.concatenate([first[:4], last[4:]]))
    spawned = (unpack(pool.batch()) != expected).sum(axis=1)
    assert (spawned == 1).all()


def test_three_of_four_ended_games_of_the_student_restart_from_a_board_of_the_teacher() -> None:
    """In all 256 games of the student, the next move and an unlucky spawn end the game."""
    pool = PositionPool(batch_size=512, slices=1, seed=3)
    pool.boards[:256], pool.boards[256:] = pack(LATE)[0], pack(NEARLY_OVER)[0]
    moves = np.full(512, 3, np.int8)
    ended = pool.advance(moves, moves)[256:]
    assert ended.mean() > 0.2
    goes_on = np.isin(pool.boards[256:][ended], pool.boards[:256])
    assert goes_on.mean() == pytest.approx(0.75, abs=0.15)
    begun = (unpack(pool.boards[256:][ended]) > 0).sum(axis=1) == 2
    assert (begun | goes_on).all()
