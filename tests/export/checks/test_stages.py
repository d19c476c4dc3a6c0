"""The boards on which a reduced precision is measured apart."""

import numpy as np
from numpy.typing import NDArray
from octofold_export.checks.stages import stages
from octofold_game.rules import legal_moves


def test_own_games_fall_apart_by_their_largest_tile(boards: NDArray[np.uint8]) -> None:
    found = stages(boards, 15, seed=1)
    own = {name: asked for name, asked in found.items() if name.startswith("own games")}
    assert sum(len(asked) for asked in own.values()) == len(boards)
    assert own["own games, up to tile 512"].max() == 9
    assert own["own games, later"].max(axis=1).min() == 14


def test_late_and_random_boards_leave_a_choice_and_are_the_same_for_every_model(
    boards: NDArray[np.uint8],
) -> None:
    one, other = stages(boards, 15, seed=1), stages(boards[:200], 15, seed=1)
    for name in ("late boards: a 16384 and a 32768", "random boards"):
        assert (one[name] == other[name]).all()
        assert (legal_moves(one[name]).sum(axis=1) > 1).all()
        assert len(one[name]) > 1_900
    late = one["late boards: a 16384 and a 32768"]
    assert ((late == 14).sum(axis=1) == 1).all()
    assert ((late == 15).sum(axis=1) == 1).all()


def test_a_network_that_knows_no_32768_has_no_late_boards(boards: NDArray[np.uint8]) -> None:
    found = stages(np.minimum(boards, 11), 11, seed=1)
    assert not [name for name in found if name.startswith("late")]
    assert found["random boards"].max() == 11


def test_stages_with_a_handful_of_boards_are_left_out(boards: NDArray[np.uint8]) -> None:
    assert set(stages(boards[:20], 15, seed=1)) == {"late boards: a 16384 and a 32768", "random boards"}
