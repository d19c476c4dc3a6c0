"""Chooses the calibration boards of int8 and boards for comparisons: from games, a file, or at random."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.episodes import Episodes, IllegalMoveError
from octofold_game.player import Player
from octofold_game.rules import BoardError, afterstates, check_boards, legal_moves
from octofold_game.symmetries import CELLS, VIEWS

from octofold_export.description.description import Description
from octofold_export.errors import ExportError
from octofold_export.printing import Report

FEWEST_BOARDS = 256
SEED = 1

_CALIBRATION_BOARDS = 4_096
"""Maximum number of calibration boards for int8, which is more than a wide layer has inputs. At most a third
of the recorded boards are calibration boards."""
_MEASURED_BOARDS = 10_240
"""Number of boards on which the graphs are compared."""
_LARGE_DIVISOR = 5
"""Number by which the number of boards from games is divided for a large network."""
_GAMES_AT_ONCE = 24
_FEWEST_NEW = 0.005
"""Minimum number of new boards in a round, as a share of the wanted boards. Games that end at a small tile
contain few different boards, so without this limit play would never stop."""
_REPORT_SECONDS = 10.0
_STAGES = {
    "up to tile 512": (0, 9),
    "up to tile 2048": (10, 11),
    "up to tile 8192": (12, 13),
    "later": (14, 17),
}
"""Stages of a game by name: the minimum and the maximum of the largest exponent on a board."""
_FEWEST_IN_STAGE = 50
_RANDOM_BOARDS = 2_048
_EMPTY_SHARE = 0.25
"""Approximate share of empty cells on random boards."""


@dataclass(frozen=True, eq=False)
class ChosenBoards:
    """The calibration boards of int8, and the boards on which graphs are compared."""

    calibration: NDArray[np.uint8]
    """Calibration boards `[M, 16]`, from which the quantization to int8 derives its scales and integers."""
    measured: NDArray[np.uint8]
    """Boards `[M, 16]` on which the graphs are compared, with no board in common with `calibration`."""


def calibration_and_comparison_boards(
    player: Player, file: Path | None, largest_exponent: int, report: Report, *, is_large: bool
) -> ChosenBoards:
    """Return calibration boards and boards to compare graphs on, from `file` or from games of `player`.

    For a large network, games provide only a fifth of the usual number of boards. Raises `ExportError` as
    `read_boards` and `boards_from_games` do.
    """
    if file is not None:
        boards = read_boards(file, largest_exponent)
    else:
        count = (_CALIBRATION_BOARDS + _MEASURED_BOARDS) // (_LARGE_DIVISOR if is_large else 1)
        report(f"playing games until they contain {count:,} different boards")
        boards = boards_from_games(player, count, largest_exponent, SEED, report)
    return ChosenBoards(*np.split(boards, [min(_CALIBRATION_BOARDS, len(boards) // 3)]))


def boards_from_games(
    player: Player, count: int, largest_exponent: int, seed: int, report: Report
) -> NDArray[np.uint8]:
    """Return different boards `[count, 16]` from complete games of `player`.

    The player plays rounds of games until they contain enough different boards. Then `count` boards are drawn
    at random, so that each stage of the game has its true share. If further games add hardly any new boards,
    fewer boards are returned. The same player, seed and count give the same boards.

    Raises:
        ExportError: the player answers a board with numbers that are not finite, or its games contain fewer
            than `FEWEST_BOARDS` boards and fewer than `count`.
    """
    seen = np.empty((0, 16), np.uint8)
    first_game = new = 0
    told = time.monotonic()
    while len(seen) < count and (not first_game or new >= _FEWEST_NEW * count):
        episodes = Episodes(seed, range(first_game, first_game + _GAMES_AT_ONCE), largest_exponent)
        boards = []
        while len(episodes.running):
            boards.append(episodes.boards)
            try:
                episodes.step(player.next_moves(episodes.boards))
            except IllegalMoveError as error:  # a graph chooses illegal moves only if its numbers are NaN
                raise ExportError(
                    f"the graph answers a board with numbers that are not finite ({error})"
                ) from error
            if time.monotonic() - told > _REPORT_SECONDS:
                told = time.monotonic()
                report(
                    f"{first_game} games played; the longest of the next {_GAMES_AT_ONCE} games is at move "
                    f"{len(boards):,}"
                )
        together = np.unique(np.concatenate([seen, *boards]), axis=0)
        new, seen = len(together) - len(seen), together
        first_game += _GAMES_AT_ONCE
        report(f"{first_game} games played, {len(seen):,} different boards")
    if len(seen) < min(FEWEST_BOARDS, count):
        raise ExportError(
            f"games that end above the tile {1 << largest_exponent} must contain at least "
            f"{min(FEWEST_BOARDS, count)} different boards, got {len(seen)}"
        )
    chosen = np.random.default_rng(seed).choice(len(seen), min(count, len(seen)), replace=False)
    return np.ascontiguousarray(seen[chosen])


def read_boards(file: Path, largest_exponent: int) -> NDArray[np.uint8]:
    """Return those boards of an .npy file that have a legal move, in random order: `[M, 16] uint8`.

    Raises:
        ExportError: the file is missing or contains another array, a board has an exponent above
            `largest_exponent`, or fewer than `FEWEST_BOARDS` boards have a legal move.
    """
    try:
        with file.open("rb") as opened:
            boards: NDArray[Any] = np.lib.format.read_array(opened, allow_pickle=False)
    except OSError as error:
        raise ExportError(f"{file}: {error.strerror}") from error
    except (ValueError, EOFError, MemoryError) as error:  # a damaged header may declare a huge array
        raise ExportError(f"{file}: not an .npy file, or a damaged one") from error
    try:
        checked = check_boards(boards, largest_exponent)
    except BoardError as error:
        raise ExportError(f"{file}: {error}") from error
    running = checked[legal_moves(checked).any(axis=1)]
    if len(running) < FEWEST_BOARDS:
        raise ExportError(
            f"{file}: must have at least {FEWEST_BOARDS} boards with a legal move, got {len(running)}"
        )
    return np.random.default_rng(1).permutation(running)


def calibration_views(
    description: Description, boards: NDArray[np.uint8], symmetries: int
) -> NDArray[np.uint8]:
    """Return the positions `[M, 16]` by which int8 is calibrated: a random view of each of `boards`.

    For a network that rates afterstates, the positions are random views of the boards' afterstates.
    """
    random = np.random.default_rng(1)
    evaluated = boards
    if description.answers.kind == "afterstate_value":
        after, _, legal = afterstates(boards)
        known = after[legal & (after.max(axis=2) <= description.largest_exponent)]
        evaluated = random.permutation(known)[: len(boards)]
    views = np.array(VIEWS[symmetries])[random.integers(symmetries, size=len(evaluated))]
    return np.take_along_axis(evaluated, CELLS[views], axis=1)


def boards_by_stage(own: NDArray[np.uint8], largest_exponent: int, seed: int) -> dict[str, NDArray[np.uint8]]:
    """Return boards `[M, 16]` for every stage of a game, by the name of the stage.

    The stages divide `own`, boards from the player's games or a file, by their largest tile. Two more groups
    are random boards, and late boards, which contain a 16384 and a 32768 in random cells. Late boards are
    rare in games, but they decide good games, so they are measured separately. A network that does not read
    these tiles gets no late boards. A stage with fewer than `_FEWEST_IN_STAGE` boards is left out.
    """
    largest = own.max(axis=1)
    by_stage = {
        f"own games, {name}": own[(low <= largest) & (largest <= high)]
        for name, (low, high) in _STAGES.items()
    }
    if largest_exponent >= 15:
        by_stage["late boards: a 16384 and a 32768"] = _late(np.random.default_rng(seed))
    by_stage["random boards"] = random_boards(largest_exponent, seed + 1)
    return {name: boards for name, boards in by_stage.items() if len(boards) >= _FEWEST_IN_STAGE}


def random_boards(largest_exponent: int, seed: int) -> NDArray[np.uint8]:
    """Return boards `[M, 16]` of random tiles that have at least two legal moves."""
    return _playable(_random(np.random.default_rng(seed), largest_exponent))


def _random(random: np.random.Generator, largest_exponent: int) -> NDArray[np.uint8]:
    boards = random.integers(1, largest_exponent + 1, (_RANDOM_BOARDS, 16)).astype(np.uint8)
    boards[random.random(boards.shape) < _EMPTY_SHARE] = 0
    return boards


def _late(random: np.random.Generator) -> NDArray[np.uint8]:
    boards = _random(random, 13)
    cells = random.permuted(np.tile(np.arange(16), (_RANDOM_BOARDS, 1)), axis=1)
    for place, exponent in enumerate((14, 15)):
        boards[np.arange(_RANDOM_BOARDS), cells[:, place]] = exponent
    return _playable(boards)


def _playable(boards: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the boards with at least two legal moves."""
    playable: NDArray[np.uint8] = boards[legal_moves(boards).sum(axis=1) > 1]
    return playable
