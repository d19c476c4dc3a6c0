"""Writes the games of a result folder as play logs: single moves, from which networks learn.

A log file holds `GAMES_PER_FILE` games and is written whole. `logs.json` says what the files hold, so that an
interrupted run goes on with the file that it was at.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from octofold_game.play_logs.moves import LoggedMoves
from octofold_game.play_logs.parquet import PROBABILITIES, VALUES
from octofold_game.play_logs.writing import log_writer
from octofold_game.rules import legal_moves
from octofold_game.system.files import write_text
from octofold_game.trajectories import Positions, all_positions, batched

from octofold_client.contenders.judges import Judge
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import ResultFolder

GAMES_PER_FILE = 100
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


@dataclass(frozen=True)
class Content:
    """What the logs of a folder hold."""

    suffix: str
    """What the names of the files end in, which is their format."""
    player: Judge | None = None
    """Who is asked for the probabilities of its own moves; None for logs without them."""
    judge: Judge | None = None
    """Who is asked what the moves are worth; None for logs without values."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What the logs have beside the moves."""
        asked = {PROBABILITIES: self.player, VALUES: self.judge}
        return tuple(name for name, judge in asked.items() if judge is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the part of `logs.json` that says what the logs hold."""
        judge = self.judge and {"name": self.judge.name, "unit": self.judge.unit, "sha256": self.judge.sha256}
        return {"suffix": self.suffix, "columns": list(self.columns), "judge": judge}


def write_logs(
    folder: ResultFolder,
    content: Content,
    on_written: Callable[[int], None] = lambda _: None,
    before_each: Callable[[], None] = lambda: None,
) -> list[LogFile]:
    """Write all finished games of the folder as logs, except those that an earlier run has written.

    Args:
        folder: holds the games, and gets the logs.
        content: what the logs hold.
        on_written: called with the number of moves whenever some are done.
        before_each: called before each part of the work. What it raises ends the work; complete files stay.

    Returns:
        All log files of the folder.

    Raises:
        EvaluationError: the folder has logs of another content.
        LogError: the format has no such columns, or a package is missing for it.
        OctofoldError: a judge did not answer.
        ReplayError: the games cannot be read.
        OSError: a file cannot be written.
    """
    index = folder.path / INDEX
    files = _written_before(index, content)
    for number, episodes in enumerate(batched(folder.finished(), GAMES_PER_FILE)):
        path = folder.path / f"moves-{number:05}{content.suffix}"
        content_now = len(episodes), episodes[-1].game
        if number < len(files) and (files[number].games, files[number].last_game) == content_now:
            on_written(files[number].moves)
            continue
        moves = 0
        with log_writer(path, content.columns) as append:
            for some in _moves(all_positions(episodes), content, before_each):
                append(some)
                moves += len(some)
                on_written(len(some))
        # The last file of an earlier run had fewer games.
        files[number:] = [LogFile(path.name, len(episodes), moves, episodes[-1].game)]
        described = {"schema": _SCHEMA, **content.to_json(), "files": list(map(asdict, files))}
        write_text(index, json.dumps(described, indent=2) + "\n")
    return files


def _written_before(index: Path, content: Content) -> list[LogFile]:
    """The files that the index names. Raises `EvaluationError` if they hold something else."""
    try:
        before = json.loads(index.read_text(encoding="utf-8"))
        same = {name: before[name] for name in content.to_json()} == content.to_json()
        files = msgspec.convert(before["files"], list[LogFile])
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError, RecursionError, msgspec.ValidationError):
        raise EvaluationError(f"{index} is damaged; it should say what the logs hold") from None
    if not same:
        raise EvaluationError(
            f"{index.parent} has logs of another format, with other columns or by another judge; choose "
            "another folder"
        )
    return list(islice(files, _present(index.parent, files)))


def _present(folder: Path, files: list[LogFile]) -> int:
    """How many of the first files are there; one that has lost its content is not."""
    sizes = (path.stat().st_size if (path := folder / each.file).is_file() else 0 for each in files)
    return next((number for number, size in enumerate(sizes) if not size), len(files))


def _moves(positions: Positions, content: Content, before_each: Callable[[], None]) -> Iterator[LoggedMoves]:
    """All moves, in parts that are asked about at once."""
    judges = [judge for judge in (content.player, content.judge) if judge is not None]
    size = min((judge.boards_at_once for judge in judges), default=1 << 16)
    for start in range(0, len(positions), size):
        before_each()
        rows = slice(start, start + size)
        boards = positions.boards[rows]
        likely = _opinion(content.player, boards) if content.player else None
        worth = _opinion(content.judge, boards) if content.judge else None
        yield LoggedMoves(
            boards,
            positions.made[rows],
            positions.cells[rows],
            None if likely is None else np.where(likely == -np.inf, 0, likely).astype(np.float32),
            worth,
        )


def _opinion(judge: Judge, boards: NDArray[np.uint8]) -> NDArray[np.float64]:
    """`[N, 4]`: `-inf` for illegal moves, NaN for boards with larger tiles than the judge can read."""
    values = np.full((len(boards), 4), np.nan)
    readable = boards.max(axis=1) <= judge.largest_exponent
    if readable.any():
        values[readable] = judge.ask(boards[readable]).values
    return np.where(legal_moves(boards), values, -np.inf)
