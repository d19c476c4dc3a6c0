"""`octofold verify`: checks the records of games, and play logs, with the rules."""

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

from octofold_client.cli.json_output import JsonFlag, print_json
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import ResultFolder, existing, replays_of
from octofold_client.wording import counted, describe

_LINES_TOLD = 20
"""Bad lines of a log that are printed; a file that is no log at all has millions."""
_BYTES_ALONE = 1 << 20
"""Files up to this size, which take seconds, are checked by this process alone."""


@dataclass(kw_only=True)
class Options(JsonFlag):
    """Its options."""

    files: list[Path] = argument(
        "FILE", "replay file, play log, or folder that holds replays, logs or both", words="+"
    )


@dataclass
class _Checked:
    """What was found in one file."""

    file: Path
    games: int | None = None
    """None for a play log."""
    moves: int = 0
    wrong: int = 0
    """Games or lines that are wrong."""
    problem: str = ""
    """In one line; empty if all is correct."""
    verdict: str = ""
    """What is correct."""

    def to_json(self) -> dict[str, Any]:
        """The fields for programs."""
        found = {name: value for name, value in vars(self).items() if name != "verdict"}
        return found | {"file": str(self.file), "problem": self.problem or None}


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
    """Check the records of a file or folder; what is wrong with each is printed on standard error."""
    if not path.is_dir() and is_log(path):
        yield _check_log(path)
        return
    logs = [file for file in sorted(path.iterdir()) if is_log(file)] if path.is_dir() else []
    if not logs or replays_of(path).exists():
        yield _check_replays(path)
    if ResultFolder(path).unfinished.exists():
        yield _check_replays(ResultFolder(path).unfinished)
    for log in logs:
        yield _check_log(log)


def _check_log(log: Path) -> _Checked:
    found, readings = _Checked(log), CellReadings()

    def broken(moves: LoggedMoves) -> list[tuple[int, str]]:
        checked = CheckedMoves.of(moves)
        readings.add(checked)
        return checked.broken()

    def tell(line: BadLine) -> None:
        found.wrong += 1
        if found.wrong <= _LINES_TOLD:
            print(f"octofold: {line}", file=sys.stderr)

    try:
        for moves in read_log(existing(log), tell, broken):
            found.moves += len(moves)
    except (LogError, EvaluationError, OSError) as error:
        if not (lines := found.moves + found.wrong):
            found.problem = describe(error)
            return found
        print(f"octofold: {describe(error)}", file=sys.stderr)
        found.problem = f"{log} cannot be read beyond {counted(lines, 'line')}"
        return found
    lines = found.moves + found.wrong
    if found.wrong:
        found.problem = f"{found.wrong:,} of {counted(lines, 'line')} of {log} {_are(found)} wrong"
    else:
        found.verdict = (
            f"{counted(found.moves, 'move')}: all are legal; the last field can be the cell of: {readings}"
        )
    return found


def _check_replays(file: Path) -> _Checked:
    found, games = _Checked(file), 0
    unfinished = file == ResultFolder(file.parent).unfinished
    try:
        found.file = replays_of(file)
        with _spread(usable_cores() if found.file.stat().st_size > _BYTES_ALONE else 1) as spread:
            for episode, error in check_replays(found.file, may_go_on=unfinished, spread=spread):
                games += 1
                found.games, found.moves = games, found.moves + len(episode)
                if error is not None:
                    found.wrong += 1
                    print(f"octofold: {error}", file=sys.stderr)
    except (ReplayError, EvaluationError, OSError) as error:
        if not games:
            found.problem = describe(error)
            return found
        print(f"octofold: {describe(error)}", file=sys.stderr)
        rest = f"; {_summary(found, file)}" if found.wrong else ""
        found.problem = f"{found.file} cannot be read beyond {counted(games, 'game')}{rest}"
        return found
    found.games = games
    if found.wrong:
        found.problem = _summary(found, found.file)
    else:
        made = (
            f"{counted(games, 'unfinished game' if unfinished else 'game')}, {counted(found.moves, 'move')}"
        )
        found.verdict = f"{made}: all moves, new tiles, scores and final boards are correct"
    return found


@contextmanager
def _spread(cores: int) -> Iterator[Spread]:
    """Yield a `map` that calls its function in a process on each core, a few calls ahead."""
    if cores == 1:
        yield map
        return
    # A forked process would share threads' locks. Ctrl-C is for this process, which ends the others.
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
            raise EvaluationError("a process that checked games was killed; is memory short?") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _summary(found: _Checked, file: Path) -> str:
    return f"{found.wrong:,} of {counted(found.games or 0, 'game')} in {file} {_are(found)} wrong"


def _are(found: _Checked) -> str:
    return "is" if found.wrong == 1 else "are"


COMMAND = Command(
    "verify",
    "check the records of games against the rules",
    "Replays every game with an independent implementation of the rules, and checks each "
    "move, each new tile, the score and the final board. Checks the unfinished games of a folder as far "
    "as they go. Checks every line of play logs: its form, that the move is legal, and that the new "
    "tile's cell is empty after it. Exits with 0 if all records are correct, and with 1 otherwise.",
    Options,
    verify,
    examples=(
        "results/play-flagship-v4-seed0",
        "results/mine/games.replay",
        "logs/ntuple",
    ),
)
