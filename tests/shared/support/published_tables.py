"""Small tables of published networks, and the moves that they learn from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from octofold_game.episodes import Episodes
from octofold_game.play_logs.moves import LoggedMoves
from octofold_game.play_logs.text import log_writer
from octofold_game.rules import afterstates
from octofold_papers.supervised.published import ROWS, PublishedRow
from octofold_papers.supervised.shards import ShuffledMoves, convert
from octofold_papers.supervised.table import Table, TableOptions

SMALL = {"kind": "mlp", "dense": [8], "exponents": 16}
TINY = (PublishedRow("MLP4", "report", SMALL, ROWS["MLP4"].published), PublishedRow("cnn-5", "Kondo", SMALL))


def log_games(log: Path, seed: int, games: int) -> None:
    """Log the moves of a player that prefers down, then right, left and up, which is simple to learn."""
    episodes, boards, made = Episodes(seed, range(games)), [], []
    while len(episodes.running):
        choices = np.where(episodes.legal, np.array([1, 3, 4, 2]), 0).argmax(axis=1).astype(np.uint8)
        boards.append(episodes.boards)
        made.append(choices)
        episodes.step(choices)
    all_boards, all_made = np.concatenate(boards), np.concatenate(made)
    after = afterstates(all_boards)[0][np.arange(len(all_made)), all_made]
    with log_writer(log) as append:
        append(LoggedMoves(all_boards, all_made, (after == 0).argmax(axis=1).astype(np.uint8)))


def convert_games(folder: Path, seed: int) -> None:
    """Convert the moves of 20 games of `log_games`."""
    log_games(folder / "log.txt", seed, 20)
    convert([folder / "log.txt"], folder / "converted", shards=2)


def table_of(
    moves: ShuffledMoves,
    folder: Path,
    rows: tuple[PublishedRow, ...] = TINY,
    tell: Callable[[str, float], None] = lambda *_: None,
    **changes: Any,
) -> Table:
    options = TableOptions(**{"positions": 8000, "games": 2, "rows": rows, **changes})
    return Table(options, moves, folder, torch.device("cpu"), tell)
