"""What the subcommands of `octofold` that judge finished games do with their parsed options.

They read replay files and result folders; results go to standard output, remarks to standard error. Failures
are raised; `cli.py` turns them into one line and an exit code.
"""

import sys
from argparse import Namespace
from pathlib import Path

from octofold_game.replays import ReplayError, check_replays

from octofold_client.results import ResultFolder


def verify(options: Namespace) -> None:
    """Replays every game of the files by the referee's rules and says whether the records are true.

    All files are looked at before `ReplayError` is raised for the games that are not true, or not readable.
    """
    wrong = []
    for file in options.files:
        replays = _replays_of(file)
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


def _replays_of(path: Path) -> Path:
    """The replay file itself, or that of a result folder."""
    return ResultFolder(path).replays if path.is_dir() else path


def _counted(games: int) -> str:
    return f"{games:,} game{'' if games == 1 else 's'}"
