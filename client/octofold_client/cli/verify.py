"""`octofold verify`: checks replays and play logs against the rules."""

import multiprocessing
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octofold_game.commands.options import argument
from octofold_game.commands.subcommands import Command
from octofold_game.play_logs.moves import CellReadings, CheckedMoves, LogError, LoggedMoves
from octofold_game.play_logs.reading import BadLine, is_log, read_log
from octofold_game.referee import ReplayError
from octofold_game.replays import Checked, Records, Spread, check_replays
from octofold_game.system.processors import usable_cores

from octofold_client.cli.shared_flags import JsonFlag, print_json
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import ResultFolder, existing, replays_of
from octofold_client.wording import counted, describe

_MOST_LINES_PRINTED = 20
"""Maximum number of bad lines of one log that are printed."""
_PARALLEL_BYTES = 1 << 20
"""Maximum size in bytes of a file that this process checks alone. Larger files, which would take seconds, are
checked by one process for each core."""


@dataclass(kw_only=True)
class Options(JsonFlag):
    """Options of `octofold verify`."""

    files: list[Path] = argument(
        "FILE", "replay file, play log, or folder that contains replays, logs or both", words="+"
    )


@dataclass
class _Checked:
    """The result of checking one file."""

    file: Path
    noun: str
    """Noun for the records: `game` or `line`."""
    records: int = 0
    moves: int = 0
    wrong: int = 0
    """Number of wrong records."""
    problem: str = ""
    """What is wrong with the file, in one line; empty if all records are correct."""
    verdict: str = ""
    """The result in one line if all records are correct; otherwise empty."""

    def run(self, check: Callable[["_Checked"], str]) -> "_Checked":
        """Run `check`, which counts the records and prints the wrong ones. Set `verdict` or `problem`.

        Return this object.
        """
        try:
            verdict = check(self)
        except (LogError, ReplayError, EvaluationError, OSError) as error:
            self.problem = describe(error)
            if self.records:
                print(f"octofold: {self.problem}", file=sys.stderr)
                self.problem = f"{self.file} cannot be read after {counted(self.records, self.noun)}"
                self.problem += f"; {self._summary()}" if self.wrong else ""
        else:
            self.problem, self.verdict = (self._summary(), "") if self.wrong else ("", verdict)
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the fields for `--json`."""
        return {
            "file": str(self.file),
            "games": self.records if self.noun == "game" else None,
            "moves": self.moves,
            "wrong": self.wrong,
            "problem": self.problem or None,
        }

    def _summary(self) -> str:
        are = "is" if self.wrong == 1 else "are"
        return f"{self.wrong:,} of {counted(self.records, self.noun)} in {self.file} {are} wrong"


def verify(options: Options) -> None:
    """Check every game and every logged move of all files, and print the result.

    Raises:
        ReplayError: a record is wrong, or a file cannot be read.
    """
    checked = []
    for each in (found for file in options.files for found in _check(file)):
        checked.append(each)
        if each.verdict and not options.json:
            print(f"{each.file}: {each.verdict}")
    if options.json:
        print_json({"files": [each.to_json() for each in checked]})
    if wrong := [each.problem for each in checked if each.problem]:
        raise ReplayError("; ".join(wrong))


def _check(path: Path) -> Iterator[_Checked]:
    """Check each file at a path, and yield its result. Print wrong records to standard error."""
    if not path.is_dir() and is_log(path):
        yield _Checked(path, "line").run(_check_log)
        return
    logs = [file for file in sorted(path.iterdir()) if is_log(file)] if path.is_dir() else []
    if not logs or replays_of(path).exists():
        yield _Checked(path, "game").run(_check_replays)
    if ResultFolder(path).unfinished.exists():
        yield _Checked(ResultFolder(path).unfinished, "game").run(_check_replays)
    for log in logs:
        yield _Checked(log, "line").run(_check_log)


def _check_log(found: _Checked) -> str:
    readings = CellReadings()

    def broken(moves: LoggedMoves) -> list[tuple[int, str]]:
        checked = CheckedMoves.of(moves)
        readings.add(checked)
        return checked.broken()

    def tell(line: BadLine) -> None:
        found.records += 1
        found.wrong += 1
        if found.wrong <= _MOST_LINES_PRINTED:
            print(f"octofold: {line}", file=sys.stderr)

    for moves in read_log(existing(found.file), tell, broken):
        found.records += len(moves)
        found.moves += len(moves)
    total = counted(found.moves, "move")
    return f"{total}: all are legal; moves by the cell that their last field can name: {readings}"


def _check_replays(found: _Checked) -> str:
    is_unfinished = found.file == ResultFolder(found.file.parent).unfinished
    found.file = replays_of(found.file)
    with _spread(usable_cores() if found.file.stat().st_size > _PARALLEL_BYTES else 1) as spread:
        for episode, error in check_replays(found.file, may_go_on=is_unfinished, spread=spread):
            found.records += 1
            found.moves += len(episode)
            if error is not None:
                found.wrong += 1
                print(f"octofold: {error}", file=sys.stderr)
    games = counted(found.records, "unfinished game" if is_unfinished else "game")
    moves = counted(found.moves, "move")
    return f"{games}, {moves}: all moves, new tiles, scores and final boards are correct"


@contextmanager
def _spread(cores: int) -> Iterator[Spread]:
    """Yield a `map` that computes ahead in one process for each core; for one core, yield `map` itself."""
    if cores == 1:
        yield map
        return
    # A forked process could copy a lock that a thread holds. Ctrl-C ends this process, which ends the others.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, context, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:

        def spread(check: Callable[[Records], Checked], batches: Iterator[Records]) -> Iterator[Checked]:
            calls: deque[Future[Checked]] = deque()
            for batch in batches:
                calls.append(pool.submit(check, batch))
                if len(calls) > 2 * cores:
                    yield calls.popleft().result()
            while calls:
                yield calls.popleft().result()

        try:
            yield spread
        except BrokenProcessPool:
            raise EvaluationError(
                "a process that checked games was killed; the machine may be short of memory"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


COMMAND = Command(
    "verify",
    "check replays and play logs against the rules",
    "Plays every game again with an independent implementation of the rules, and checks each "
    "move, each new tile, the score and the final board. Checks the unfinished games of a folder up to "
    "their last move. Checks every line of play logs: its form, whether the move is legal, and whether the "
    "new tile's cell is empty after the move. Exits with 0 if all records are correct, and with 1 otherwise.",
    Options,
    verify,
    examples=("results/play-flagship-v5-seed0", "results/mine/games.replay", "logs/ntuple"),
)
