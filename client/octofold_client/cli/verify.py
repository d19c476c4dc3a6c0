"""`octofold verify`: checks the records of games, and play logs, with the rules."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from octofold_game.play_logs.moves import CellReadings, CheckedMoves, LogError, Moves
from octofold_game.play_logs.reading import BadLine, is_log, read_log
from octofold_game.play_logs.streams import begins_as_log
from octofold_game.referee import ReplayError
from octofold_game.replays import check_replays

from octofold_client.cli.arguments import Subcommands
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import ResultFolder, existing, replays_of
from octofold_client.wording import counted, described

_LINES_TOLD = 20
"""Bad lines of a log that are printed; a file that is no log at all has millions."""


def add(subcommands: "Subcommands") -> None:
    """Add the subcommand."""
    parser = subcommands.add_parser(
        "verify",
        help="check the records of games against the rules",
        description="Replays every game with an independent implementation of the rules, and checks each "
        "move, each new tile, the score and the final board. Checks the unfinished games of a folder as far "
        "as they go. Checks every line of play logs: its form, that the move is legal, and that the new "
        "tile's cell is empty after it. Exits with 0 if all records are correct, and with 1 otherwise.",
    )
    parser.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="replay file, play log, or folder that holds replays, logs or both",
    )
    parser.set_defaults(run=verify)


def verify(options: Namespace) -> None:
    """Check every game and every logged move of all files, and print the result.

    Raises:
        ReplayError: a record is wrong, or a file cannot be read.
    """
    wrong = [reason for file in options.files for reason in _wrong(file) if reason]
    if wrong:
        raise ReplayError("; ".join(wrong))


def _wrong(path: Path) -> Iterator[str]:
    """Print what is wrong with each record of a file or folder; yield summaries, empty if all is correct."""
    if not path.is_dir() and (is_log(path) or begins_as_log(path)):
        yield _wrong_log(path)
        return
    logs = [file for file in sorted(path.iterdir()) if is_log(file)] if path.is_dir() else []
    if not logs or replays_of(path).exists():
        yield _wrong_replays(path)
    if ResultFolder(path).unfinished.exists():
        yield _wrong_replays(ResultFolder(path).unfinished)
    for log in logs:
        yield _wrong_log(log)


def _wrong_log(log: Path) -> str:
    """Print the first bad lines of a log; return a summary of them, empty if there are none."""
    good = bad = 0
    readings = CellReadings()

    def broken(moves: Moves) -> list[tuple[int, str]]:
        checked = CheckedMoves.of(moves)
        readings.add(checked)
        return checked.broken()

    def tell(line: BadLine) -> None:
        nonlocal bad
        bad += 1
        if bad <= _LINES_TOLD:
            print(f"octofold: {line}", file=sys.stderr)

    try:
        for moves in read_log(existing(log), tell, broken):
            good += len(moves)
    except (LogError, EvaluationError, OSError) as error:
        if not good and not bad:
            return described(error)
        print(f"octofold: {described(error)}", file=sys.stderr)
        return f"{log} cannot be read beyond {counted(good + bad, 'line')}"
    if bad:
        return f"{bad:,} of {counted(good + bad, 'line')} of {log} {'is' if bad == 1 else 'are'} wrong"
    print(f"{log}: {counted(good, 'move')}: all are legal; the last field can be the cell of: {readings}")
    return ""


def _wrong_replays(file: Path) -> str:
    """Print the wrong games of a file or folder; return a summary of them, empty if all are correct."""
    games = moves = wrong = 0
    unfinished = file == ResultFolder(file.parent).unfinished
    try:
        replays = replays_of(file)
        for episode, error in check_replays(replays, may_go_on=unfinished):
            games += 1
            moves += len(episode)
            if error is not None:
                wrong += 1
                print(f"octofold: {error}", file=sys.stderr)
    except (ReplayError, EvaluationError, OSError) as error:
        if not games:
            return described(error)
        print(f"octofold: {described(error)}", file=sys.stderr)
        rest = f"; {_summary(wrong, games, file)}" if wrong else ""
        return f"{replays} cannot be read beyond {counted(games, 'game')}{rest}"
    if wrong:
        return _summary(wrong, games, replays)
    made = f"{counted(games, 'unfinished game' if unfinished else 'game')}, {counted(moves, 'move')}"
    print(f"{replays}: {made}: all moves, new tiles, scores and final boards are correct")
    return ""


def _summary(wrong: int, games: int, file: Path) -> str:
    return f"{wrong:,} of {counted(games, 'game')} in {file} {'is' if wrong == 1 else 'are'} wrong"
