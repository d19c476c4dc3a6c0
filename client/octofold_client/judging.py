"""What the subcommands of `octofold` that judge finished games do with their parsed options.

They read replay files and result folders; results go to standard output, remarks to standard error. Failures
are raised; `cli.py` turns them into one line and an exit code.
"""

import sys
from argparse import Namespace
from types import ModuleType

from octofold_game.replays import ReplayError, check_replays
from rich.console import Console

from octofold_client.errors import EvaluationError
from octofold_client.report import missing_note, print_report
from octofold_client.report import report as write_report
from octofold_client.result_file import Evaluation, earlier_run
from octofold_client.results import ResultFolder, replays_of
from octofold_client.summary import GameSummary, Summary
from octofold_client.trajectories import GAMES_AT_ONCE, Climb, batched


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


def report(options: Namespace) -> None:
    """Writes the result and the report of a folder anew from its replays, with pictures if asked, and prints
    the table.
    """
    folder = ResultFolder(options.folder)
    conditions = folder.conditions()
    if conditions is None:
        raise EvaluationError(f"{folder.path} holds no evaluation")
    earlier = earlier_run(folder)
    # Asked before minutes of work rather than after them.
    draw = pictures_module().draw if options.plots else None
    climb = Climb()
    games = []
    for episodes in batched(folder.finished(), GAMES_AT_ONCE):
        games += [GameSummary.of(episode) for episode in episodes]
        if draw is not None:
            climb.add(episodes)
    if not games:
        raise EvaluationError(f"{folder.replays} holds no finished game")
    games.sort(key=lambda game: game.game)
    evaluation = Evaluation(conditions, tuple(games), Summary.of(games), *earlier)
    drawn = [] if draw is None else draw(folder.path, evaluation, climb)
    folder.write_result(evaluation.to_json(), write_report(evaluation, drawn))
    print_report(evaluation.summary, evaluation.title, Console())
    if evaluation.missing_games:
        print(missing_note(evaluation.missing_games), file=sys.stderr)
    print()
    print(f"result:  {folder.result}")
    print(f"report:  {folder.report}")
    for name in drawn:
        print(f"picture: {folder.path / name}")


def pictures_module() -> ModuleType:
    """The one module that needs matplotlib, which the base install has not. Raises `EvaluationError`."""
    try:
        from octofold_client import pictures
    except ModuleNotFoundError as error:
        raise EvaluationError(f"pictures need {error.name}: install octofold[plots]") from None
    return pictures


def _counted(games: int) -> str:
    return f"{games:,} game{'' if games == 1 else 's'}"
