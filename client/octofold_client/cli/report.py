"""`octofold report`: result, report and pictures of a result folder, written anew from its replays."""

import sys
from argparse import Namespace
from pathlib import Path

from rich.console import Console

from octofold_client.analysis.trajectories import GAMES_AT_ONCE, Climb, batched
from octofold_client.cli.arguments import Subcommands
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.report import missing_note
from octofold_client.evaluation.report import report as write_report
from octofold_client.evaluation.result import Evaluation, earlier_run
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.evaluation.summary import GameSummary, Summary
from octofold_client.extras import pictures_of
from octofold_client.terminal.tables import print_report


def add(subcommands: "Subcommands") -> None:
    parser = subcommands.add_parser(
        "report",
        help="rebuild result, report and pictures from the replays of a folder",
        description="Rebuilds result.json and report.md from the replays of a result folder, and prints the "
        "table. Works for unfinished evaluations too.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of results")
    parser.add_argument(
        "--plots", action="store_true", help="draw pictures beside them (needs the extra plots)"
    )
    parser.set_defaults(run=report)


def report(options: Namespace) -> None:
    """Writes the result and the report of a folder anew from its replays, with pictures if asked, and prints
    the table.
    """
    folder, conditions = ResultFolder.of_evaluation(options.folder)
    earlier = earlier_run(folder)
    # Asked before minutes of work rather than after them.
    draw = pictures_of("octofold_client.analysis.pictures").draw if options.plots else None
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
