"""Expectimax returns the values of its definition and plays legal moves to the end of the game."""

import numpy as np
import pytest
from octofold_game import rules
from octofold_game.bitboards import pack
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.player import NTupleSearch

TUPLES = ((0, 1, 2, 3), (1, 2, 5, 6))


@pytest.fixture(scope="module")
def network() -> NTupleNetwork:
    values = np.random.default_rng(5).normal(100, 30, NTupleNetwork.size(TUPLES)).astype(np.float32)
    return NTupleNetwork(TUPLES, values)


def _boards() -> np.ndarray:
    boards = np.random.default_rng(6).integers(0, 6, (12, 16)).astype(np.uint8)
    boards[0] = [1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 2, 1, 2, 1]  # over
    boards[1] = [1, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2, 2, 1, 2, 0]  # nearly
    boards[2, :2] = 15
    return boards


def _by_definition(network: NTupleNetwork, board: np.ndarray, depth: int) -> list[float]:
    found = []
    for move in range(4):
        after, reward, _ = rules.afterstates(board[None])
        afterstate, points = after[0, move], float(reward[0, move])
        if (afterstate == board).all():
            found.append(-np.inf)
        elif afterstate.max() > 15:
            found.append(points)
        elif depth == 1:
            found.append(float(network.action_values(pack(board[None]))[0, move]))
        else:
            empty = np.flatnonzero(afterstate == 0)
            expected = 0.0
            for cell in empty:
                for exponent, share in ((1, 0.9), (2, 0.1)):
                    spawned = afterstate.copy()
                    spawned[cell] = exponent
                    expected += share * max(0.0, *_by_definition(network, spawned, depth - 1))
            found.append(points + expected / len(empty))
    return found


@pytest.mark.parametrize("depth", [1, 2])
def test_values_match_the_definition(network: NTupleNetwork, depth: int) -> None:
    boards = _boards()
    expected = [_by_definition(network, board, depth) for board in boards]
    np.testing.assert_allclose(NTupleSearch(network, depth).values(pack(boards)), expected, rtol=1e-5)


def test_boards_with_few_empty_cells_are_searched_one_move_deeper(network: NTupleNetwork) -> None:
    boards = _boards()
    empty = (boards == 0).sum(axis=1)
    assert {2, 3} <= set(empty)
    expected = [
        _by_definition(network, board, 2 if cells < 3 else 1)
        for board, cells in zip(boards, empty, strict=True)
    ]
    search = NTupleSearch(network, 1, deeper_below=3)
    np.testing.assert_allclose(search.values(pack(boards)), expected, rtol=1e-5)


def test_depth_3_sees_further_than_depth_2(network: NTupleNetwork) -> None:
    board = np.array([1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, 4, 5, 1, 1], np.uint8)
    expected = _by_definition(network, board, 3)
    np.testing.assert_allclose(NTupleSearch(network, 3).values(pack(board[None]))[0], expected, rtol=1e-5)
    assert not np.allclose(NTupleSearch(network, 2).values(pack(board[None]))[0], expected)
