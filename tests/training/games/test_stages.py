"""Stages of a game: by the sum of tiles; and the leads that are typical of them."""

import numpy as np
import pytest
from octofold_game.bitboards import unpack
from octofold_training.games.stages import STAGES, TypicalLeads, stages


def test_a_stage_is_2048_points_of_tiles() -> None:
    boards = np.random.default_rng(1).integers(0, 1 << 63, 500, np.int64).astype(np.uint64)
    boards[:100] &= np.uint64(0x7777_7777_7777_7777)
    exponents = unpack(boards).astype(np.int64)
    tiles = np.where(exponents > 0, 1 << exponents, 0).sum(axis=1)
    np.testing.assert_array_equal(stages(boards), np.minimum(tiles // 2048, STAGES - 1))


def test_leads_are_learned_from_the_positions_that_have_a_choice() -> None:
    leads = TypicalLeads()
    at = np.array([3, 3, 7, 7])
    one_move = [5.0, -np.inf, -np.inf, -np.inf]
    values = np.array([[0, -99, -200, -500], one_move, [0, -9, -np.inf, -np.inf], one_move], np.float32)
    leads.follow(at, values)
    relative = leads.relative(np.array([3, 7, 20]))
    assert relative[0] / relative[1] == pytest.approx(10.0)
    assert relative[2] == 1.0  # nothing is known of it


def test_saved_leads_are_restored_as_they_were() -> None:
    leads, again = TypicalLeads(), TypicalLeads()
    leads.follow(np.array([1]), np.array([[0, -50, -60, -70]], np.float32))
    again.restore(leads.state())
    np.testing.assert_array_equal(again.relative(np.arange(STAGES)), leads.relative(np.arange(STAGES)))
