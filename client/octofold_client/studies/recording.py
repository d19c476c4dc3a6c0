"""Writes the games of a result folder as play logs: single moves, from which networks learn.

A log file holds `GAMES_PER_FILE` games and is written whole. `logs.json` says what the files hold, so that an
interrupted run goes on with the file that it was at.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import msgspec
from octofold_game.play_logs.moves import LoggedMoves
from octofold_game.play_logs.text import log_writer
from octofold_game.system.files import write_text
from octofold_game.trajectories import all_positions, batched

from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import ResultFolder

GAMES_PER_FILE = 100
_MOVES_AT_ONCE = 1 << 16
INDEX = "logs.json"
_SCHEMA = 1


@dataclass(frozen=True)
class LogFile:
    """One log file of a folder."""

    file: str
    games: int
    moves: int
    last_game: int = -1
    """Index of its last game; -1 if an older release wrote it, when games were in no order."""


def write_logs(
    folder: ResultFolder,
    on_written: Callable[[int], None] = lambda _: None,
    before_each: Callable[[], None] = lambda: None,
) -> list[LogFile]:
    """Write all finished games of the folder as logs, except those that an earlier run has written.

    Args:
        folder: holds the games, and gets the logs.
        on_written: called with the number of moves whenever some are done.
        before_each: called before each part of the work. What it raises ends the work; complete files stay.

    Returns:
        All log files of the folder.

    Raises:
        EvaluationError: `logs.json` is damaged.
        ReplayError: the games cannot be read.
        OSError: a file cannot be written.
    """
    index = folder.path / INDEX
    files = _written_before(index)
    for number, episodes in enumerate(batched(folder.finished(), GAMES_PER_FILE)):
        path = folder.path / f"moves-{number:05}.txt.gz"
        content_now = len(episodes), episodes[-1].game
        if number < len(files) and (files[number].games, files[number].last_game) == content_now:
            on_written(files[number].moves)
            continue
        positions, moves = all_positions(episodes), 0
        with log_writer(path) as append:
            for start in range(0, len(positions), _MOVES_AT_ONCE):
                before_each()
                rows = slice(start, start + _MOVES_AT_ONCE)
                some = LoggedMoves(positions.boards[rows], positions.made[rows], positions.cells[rows])
                append(some)
                moves += len(some)
                on_written(len(some))
        # The last file of an earlier run had fewer games.
        files[number:] = [LogFile(path.name, len(episodes), moves, episodes[-1].game)]
        described = {"schema": _SCHEMA, "files": list(map(asdict, files))}
        write_text(index, json.dumps(described, indent=2) + "\n")
    return files


def _written_before(index: Path) -> list[LogFile]:
    """The files that the index names. Raises `EvaluationError` if it is damaged."""
    try:
        files = msgspec.convert(json.loads(index.read_text(encoding="utf-8"))["files"], list[LogFile])
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError, RecursionError, msgspec.ValidationError):
        raise EvaluationError(f"{index} is damaged; it should say what the logs hold") from None
    return list(islice(files, _present(index.parent, files)))


def _present(folder: Path, files: list[LogFile]) -> int:
    """How many of the first files are there; one that has lost its content is not."""
    sizes = (path.stat().st_size if (path := folder / each.file).is_file() else 0 for each in files)
    return next((number for number, size in enumerate(sizes) if not size), len(files))
