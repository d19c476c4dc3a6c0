"""Games in columns: a table reads as the list of its games, and an evaluation holds little else of a game."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client.contenders.local_players import LocalContender
from octofold_client.contenders.player_thread import PlayerThread
from octofold_client.evaluation.evaluate import evaluate
from octofold_client.evaluation.game_table import GameSet, GameSummary, GameTable
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.terminal.progress import progress_on
from octofold_game.rules import legal_moves
from rich.console import Console

GAMES = [GameSummary(game, 4 * game, 1 << game % 18, 10 + game, game % 7 == 0) for game in range(5000)]


def test_a_table_reads_as_the_list_of_its_games() -> None:
    table = GameTable(GAMES)
    assert list(table) == GAMES
    assert (table[0], table[-1], len(table)) == (GAMES[0], GAMES[-1], 5000)
    assert table[3:9] == GAMES[3:9]
    assert table == GameTable(GAMES)
    assert table != GAMES[:-1]
    assert GameTable(reversed(GAMES)).in_order() == GAMES
    assert table.within(range(10, 12)) == GAMES[10:12]
    with pytest.raises(IndexError):
        table[5000]


def test_a_set_of_games_knows_which_it_has_seen_wherever_they_are() -> None:
    random = np.random.default_rng(1)
    games, seen, known = [*range(3000), *random.integers(0, 2**63, 500).tolist()], GameSet(), set[int]()
    for game in games + games:
        assert seen.add(game) == (game not in known)
        known.add(game)


class Brief:
    """Plays games that end with the first tile of 8, so that thousands take a second."""

    name = "brief"
    largest_exponent = 2

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        moves: NDArray[np.int8] = legal_moves(boards).argmax(axis=1).astype(np.int8)
        return moves


def peak_of(games: int, folder: Path) -> int:
    """Most bytes that an evaluation held at once."""
    contender = LocalContender(Brief())
    with (folder / "progress").open("w") as file, PlayerThread(contender) as source:
        progress = progress_on(Console(file=file), games, "brief")
        tracemalloc.start()
        try:
            evaluate(
                [source],
                contender,
                ResultFolder(folder / str(games)),
                seed=1,
                games=games,
                parallel=512,
                progress=progress,
            )
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def test_an_evaluation_holds_less_than_150_bytes_of_each_game(tmp_path: Path) -> None:
    peak_of(100, tmp_path)  # modules and caches
    few, many = peak_of(1_000, tmp_path), peak_of(4_000, tmp_path)
    assert (many - few) / 3_000 < 150
