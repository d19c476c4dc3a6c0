"""`octofold verify`: checks the records of games with the referee's rules."""

import sys
from argparse import Namespace
from pathlib import Path

from octofold_game.replays import ReplayError, check_replays

from octofold_client.cli.arguments import Subcommands
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import replays_of
from octofold_client.wording import counted, described


def add(subcommands: "Subcommands") -> None:
    """Add the subcommand."""
    parser = subcommands.add_parser(
        "verify",
        help="check the records of games against the rules",
        description="Replays every game with an independent implementation of the rules, and checks each "
        "move, each new tile, the score and the final board. Exits with 0 if all records are correct, and "
        "with 1 otherwise.",
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="replay file or result folder")
    parser.set_defaults(run=verify)


def verify(options: Namespace) -> None:
    """Replay every game of all files with the referee's rules, and print the result.

    Raises:
        ReplayError: a record is wrong, or a file cannot be read.
    """
    wrong = [reason for file in options.files if (reason := _wrong(file))]
    if wrong:
        raise ReplayError("; ".join(wrong))


def _wrong(file: Path) -> str:
    """Print the wrong games of a file or folder; return a summary of them, empty if all are correct."""
    games = moves = wrong = 0
    try:
        replays = replays_of(file)
        for episode, error in check_replays(replays):
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
    made = f"{counted(games, 'game')}, {counted(moves, 'move')}"
    print(f"{replays}: {made}: all moves, new tiles, scores and final boards are correct")
    return ""


def _summary(wrong: int, games: int, file: Path) -> str:
    return f"{wrong:,} of {counted(games, 'game')} in {file} {'is' if wrong == 1 else 'are'} wrong"
