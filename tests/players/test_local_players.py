"""The promises that every local player keeps."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game import rules
from octofold_game.episodes import Episodes
from octofold_papers.answers.minimax import MinimaxPlayer
from octofold_papers.answers.monte_carlo import MonteCarloPlayer
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer
from octofold_players.local_player import LocalPlayer, ValuePlayer
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.player import NTuplePlayer
from octofold_players.random_player import RandomPlayer

PLAYERS = [
    RandomPlayer(),
    MonteCarloPlayer(runs=3),
    MinimaxPlayer(depth=2),
    HeuristicExpectimaxPlayer(depth=2),
]
every_player = pytest.mark.parametrize("player", PLAYERS, ids=lambda player: player.name)


def largest_tiles(player: LocalPlayer, games: int) -> list[int]:
    episodes = Episodes(1, range(games), player.largest_exponent)
    tiles: list[int] = []
    while len(episodes.running):
        tiles += [episode.largest_tile for episode in episodes.step(player.next_moves(episodes.boards))]
    return sorted(tiles)


@every_player
def test_moves_are_legal_and_a_finished_game_is_minus_one(
    player: LocalPlayer, boards: NDArray[np.uint8]
) -> None:
    moves = player.next_moves(boards)
    legal = rules.legal_moves(boards)
    running = np.asarray(legal.any(axis=1))
    assert not running[0]
    assert moves[~running].tolist() == [-1] * np.count_nonzero(~running)
    assert legal[running, moves[running]].all()


@every_player
def test_a_move_depends_only_on_its_board(player: LocalPlayer, boards: NDArray[np.uint8]) -> None:
    alone = [player.next_moves(board[None])[0] for board in boards]
    assert player.next_moves(boards[::-1]).tolist() == alone[::-1]
    assert player.next_moves(np.repeat(boards, 4, axis=0))[::4].tolist() == alone


@every_player
def test_a_game_continues_beyond_65536(player: LocalPlayer) -> None:
    boards = np.array([[17, 16, 9, 3, 8, 2, 1, 1] + [0] * 8, [16, 16] + [0] * 14], np.uint8)
    moves = player.next_moves(boards)
    assert rules.legal_moves(boards)[[0, 1], moves].all()


@pytest.mark.parametrize(
    "player",
    [player for player in PLAYERS if isinstance(player, ValuePlayer)],
    ids=lambda player: player.name,
)
def test_only_illegal_moves_have_the_value_minus_infinity(
    player: ValuePlayer, boards: NDArray[np.uint8]
) -> None:
    assert (np.isfinite(player.action_values(boards)) == rules.legal_moves(boards)).all()


def test_the_digest_covers_options_and_tables_but_not_their_path(tmp_path: Path) -> None:
    tuples = ((0, 1, 2, 3),)
    values = np.ones(NTupleNetwork.size(tuples), np.float32)
    for name, scale in (("one", 1), ("same", 1), ("other", 2)):
        NTupleNetwork(tuples, values * np.float32(scale)).save(tmp_path / name)
    digests = [NTuplePlayer(tmp_path / name).sha256 for name in ("one", "same", "other")]
    assert digests[0] == digests[1] != digests[2]
    assert NTuplePlayer(tmp_path / "one", depth=2).sha256 != digests[0]
    assert NTuplePlayer(tmp_path / "one", depth=2).name == f"ntuple:{tmp_path / 'one'},depth=2"
    assert NTuplePlayer(tmp_path / "one", deeper_below=1).sha256 != digests[0]
    # Digests from before the option exist in results.
    old = hashlib.sha256(json.dumps(["ntuple", 2, {"depth": 1, "tables": None}]).encode())
    for part in (np.array(tuples), values):
        old.update(part.data)
    assert digests[0] == old.hexdigest()
    assert RandomPlayer().sha256 != RandomPlayer(seed=1).sha256

    class ChangedPlayer(RandomPlayer):
        revision = 2

    class OtherPlayer(RandomPlayer):
        kind = "other"

    assert len({player().sha256 for player in (RandomPlayer, ChangedPlayer, OtherPlayer)}) == 3


def test_a_seed_fixes_random_moves_and_another_changes_them(boards: NDArray[np.uint8]) -> None:
    for player in (RandomPlayer, lambda seed: MonteCarloPlayer(runs=2, seed=seed)):
        moves = [player(seed=seed).next_moves(boards).tolist() for seed in (1, 1, 2)]
        assert moves[0] == moves[1] != moves[2]


def test_random_moves_are_uniform_among_the_legal_ones() -> None:
    board = np.array([[0, 0, 0, 1] + [0] * 12], np.uint8)  # down and left are legal
    moves = np.array([RandomPlayer(seed).next_moves(board)[0] for seed in range(1000)])
    assert set(moves.tolist()) == {2, 3}
    assert abs(np.count_nonzero(moves == 2) - 500) < 80  # five standard deviations


@pytest.mark.parametrize(
    ("player", "games", "tile"),
    [(HeuristicExpectimaxPlayer(2), 5, 2048), (MinimaxPlayer(2), 5, 512), (MonteCarloPlayer(10), 3, 1024)],
    ids=["expectimax", "minimax", "montecarlo"],
)
def test_searches_make_large_tiles_and_random_moves_do_not(
    player: LocalPlayer, games: int, tile: int
) -> None:
    assert largest_tiles(player, games)[games // 2] >= tile
    assert largest_tiles(RandomPlayer(), 20)[-1] <= 512
