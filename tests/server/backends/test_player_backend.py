"""The backend of a player: failures at the start give one line, and finished boards are not searched."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game.contract.searches import Limits, SearchResult
from octofold_server.backends.backend import BackendError, RequestedOutputs
from octofold_server.backends.players import PlayerBackend


class Failing:
    value_unit: str | None = None
    largest_exponent = 17

    def prepare(self) -> None:
        raise RuntimeError("the device is lost\nat line 7")

    def find(self, boards: NDArray[np.uint8], limits: Limits, /) -> SearchResult:
        raise NotImplementedError


def test_any_exception_of_a_search_at_the_start_gives_a_one_line_error() -> None:
    with pytest.raises(BackendError) as refusal:
        PlayerBackend(Failing()).warm_up()
    assert str(refusal.value) == "the device is lost"


class Searching(Failing):
    """A search that finds move 2 for at most `turn` boards."""

    def __init__(self, turn: int, value_unit: str | None) -> None:
        self.value_unit, self._turn = value_unit, turn

    def find(self, boards: NDArray[np.uint8], _: Limits, /) -> SearchResult:
        assert (boards == 1).all()
        count = min(len(boards), self._turn)
        values = None if self.value_unit is None else np.ones((count, 4), np.float32)
        return SearchResult(
            np.full(count, 2, np.int8), values, np.ones(count, np.uint8), np.ones(count, np.int64)
        )


@pytest.mark.parametrize("value_unit", [None, "points"])
@pytest.mark.parametrize(
    ("running", "turn", "moves"),
    [
        ([1, 2, 4], 3, [-1, 2, 2, -1, 2, -1]),
        ([1, 2, 4], 2, [-1, 2, 2, -1]),
        ([1, 2, 4], 1, [-1, 2]),
        ([], 1, [-1] * 6),
    ],
)
def test_finished_boards_are_answered_without_a_search_up_to_the_first_unsearched_board(
    value_unit: str | None, running: list[int], turn: int, moves: list[int]
) -> None:
    boards = np.tile(np.resize(np.array([1, 2, 1, 2, 2, 1, 2, 1], np.uint8), 16), (6, 1))
    boards[running] = 1
    asked = RequestedOutputs(running=np.array(running, np.intp))
    found = PlayerBackend(Searching(turn, value_unit)).run(boards, asked)
    assert found.moves.tolist() == moves
    assert found.depth is not None
    assert found.positions is not None
    assert found.depth.tolist() == found.positions.tolist() == [move // 2 + (move < 0) for move in moves]
    if value_unit is None:
        assert found.values is None
    else:
        assert found.values is not None
        assert np.isfinite(found.values).all(axis=1).tolist() == [move == 2 for move in moves]
