"""All functions accept boards `[N, 4, 4]`, and `[4, 4]` for one board, in place of rows of 16 cells."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client import AsyncClient, Client, RemotePlayer
from octofold_export.checks.calibration_and_comparison_boards import read_boards
from octofold_game import bitboards, rules, spawns
from octofold_game.play_logs.moves import LoggedMoves
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer

Boards = NDArray[np.uint8]
BOARDS: Boards = np.random.default_rng(1).integers(0, 8, (300, 16)).astype(np.uint8)
BOARDS[:, 0] = 0
MOVES = np.zeros(len(BOARDS), np.uint8)
BITS = np.random.default_rng(2).integers(0, 2**63, len(BOARDS)).astype(np.uint64)


@pytest.mark.parametrize(
    "function",
    [
        rules.check_boards,
        rules.afterstates,
        rules.legal_moves,
        lambda boards: rules.slide(boards, MOVES),
        lambda boards: spawns.spawn(boards, BITS),
        bitboards.pack,
        HeuristicExpectimaxPlayer(depth=1).next_moves,
        lambda boards: LoggedMoves(boards, MOVES, MOVES).boards,
    ],
)
def test_every_function_accepts_both_shapes(function: Callable[[Boards], Any]) -> None:
    flat, square = function(BOARDS), function(BOARDS.reshape(-1, 4, 4))
    for one, other in zip(
        *(found if isinstance(found, tuple | list) else [found] for found in (flat, square)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


async def test_every_call_accepts_both_shapes(target: str) -> None:
    squares = BOARDS.reshape(-1, 4, 4)
    with Client(target) as client:
        moves = client.next_moves(BOARDS).moves.tolist()
        assert client.next_moves(squares).moves.tolist() == moves
        assert client.begin_next_moves(squares.tolist()).result().moves.tolist() == moves
        assert RemotePlayer(client).next_moves(squares).tolist() == moves
        assert client.next_move(squares[0]).move == client.next_move(squares[0].tolist()).move == moves[0]
    async with AsyncClient(target) as client:
        assert (await client.next_moves(squares)).moves.tolist() == moves
        assert (await client.next_move(squares[0].tolist())).move == moves[0]


def test_an_observation_of_the_environment_is_a_board(target: str) -> None:
    env = gymnasium.make("octofold_game.environments.single:octofold/2048-v0")
    observation, info = env.reset(seed=1)
    assert rules.legal_moves(observation[None])[0].tolist() == info["action_mask"].astype(bool).tolist()
    with Client(target) as client:
        assert info["action_mask"][client.next_move(observation).move]


def test_recorded_boards_for_an_export_may_be_square(tmp_path: Path) -> None:
    np.save(tmp_path / "boards.npy", BOARDS.reshape(-1, 4, 4))
    assert read_boards(tmp_path / "boards.npy", 15).shape[1:] == (16,)
