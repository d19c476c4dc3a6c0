"""`octofold verify`: whether the records of games are true, by the referee's rules."""

import sys
from argparse import Namespace
from pathlib import Path

from octofold_game.replays import ReplayError, check_replays

from octofold_client.cli.arguments import Subcommands
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import replays_of
from octofold_client.wording import counted, described


def add(subcommands: "Subcommands") -> None:
    parser = subcommands.add_parser(
        "verify",
        help="check the records of games against the rules",
        description="Replays every game with an independent implementation of the rules, and checks each "
        "move, each new tile, the score and the final board. Exits with 0 only if everything is right.",
    )
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="replay file or folder of results"
    )
    parser.set_defaults(run=verify)


def verify(options: Namespace) -> None:
    """Replays every game of the files by the referee's rules and says whether the records are true.

    All files are looked at before `ReplayError` is raised for the games that are not true, or not readable.
    """
    wrong = [reason for file in options.files if (reason := _wrong(file))]
    if wrong:
        raise ReplayError("; ".join(wrong))


def _wrong(file: Path) -> str:
    """What is wrong with the games of one file or folder; empty where nothing is. Prints every such game."""
    games = moves = untrue = 0
    try:
        replays = replays_of(file)
        for episode, error in check_replays(replays):
            games += 1
            moves += len(episode)
            if error is not None:
                untrue += 1
                print(f"octofold: {error}", file=sys.stderr)
    except (ReplayError, EvaluationError, OSError) as error:
        if not games:
            return described(error)
        print(f"octofold: {described(error)}", file=sys.stderr)
        untold = f"; {_untrue(untrue, games, file)}" if untrue else ""
        return f"{replays} cannot be read beyond {counted(games, 'game')}{untold}"
    if untrue:
        return _untrue(untrue, games, replays)
    made = f"{counted(games, 'game')}, {counted(moves, 'move')}"
    print(f"{replays}: {made}: scores, moves and final boards are true")
    return ""


def _untrue(untrue: int, games: int, file: Path) -> str:
    return f"{untrue:,} of {counted(games, 'game')} of {file} {'is' if untrue == 1 else 'are'} not true"
