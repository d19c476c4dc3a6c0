"""`octofold verify`: whether the records of games are true, by the referee's rules."""

import sys
from argparse import Namespace
from pathlib import Path

from octofold_game.replays import ReplayError, check_replays

from octofold_client.cli.arguments import Subcommands
from octofold_client.evaluation.result_folder import replays_of


def add(subcommands: "Subcommands") -> None:
    parser = subcommands.add_parser(
        "verify",
        help="replay games by the rules and say whether their records are true",
        description="Replays every game by rules of its own: each move, each new tile, the score and "
        "the final board. Exits with 0 only when all of it is true.",
    )
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="a replay file, or a folder of results"
    )
    parser.set_defaults(run=verify)


def verify(options: Namespace) -> None:
    """Replays every game of the files by the referee's rules and says whether the records are true.

    All files are looked at before `ReplayError` is raised for the games that are not true, or not readable.
    """
    wrong = []
    for file in options.files:
        replays = replays_of(file)
        games = moves = untrue = 0
        try:
            for episode, error in check_replays(replays):
                games += 1
                moves += len(episode)
                if error is not None:
                    untrue += 1
                    print(f"octofold: {error}", file=sys.stderr)
        except (ReplayError, OSError) as error:
            print(f"octofold: {error}", file=sys.stderr)
            wrong.append(f"{replays} cannot be read beyond {_counted(games)}")
        else:
            if not untrue:
                print(
                    f"{replays}: {_counted(games)}, {moves:,} moves: scores, moves and final boards are true"
                )
        if untrue:
            wrong.append(
                f"{untrue:,} of {_counted(games)} of {replays} {'is' if untrue == 1 else 'are'} not true"
            )
    if wrong:
        raise ReplayError("; ".join(wrong))


def _counted(games: int) -> str:
    return f"{games:,} game{'' if games == 1 else 's'}"
