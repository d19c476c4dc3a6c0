"""`octofold report`: rebuilds result, report and pictures of a result folder from its replays."""

import sys
from argparse import Namespace
from pathlib import Path

from rich.console import Console

from octofold_client.analysis import scores
from octofold_client.analysis.trajectories import GAMES_AT_ONCE, Climb, batched
from octofold_client.cli.arguments import Subcommands
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.game_table import GameSummary, GameTable
from octofold_client.evaluation.report import missing_note
from octofold_client.evaluation.report import report as write_report
from octofold_client.evaluation.result import Evaluation, earlier_run
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.evaluation.summary import Summary
from octofold_client.extras import pictures_of
from octofold_client.terminal.tables import print_report


def add(subcommands: "Subcommands") -> None:
    """Add the subcommand."""
    parser = subcommands.add_parser(
        "report",
        help="rebuild the result, report and pictures of a result folder",
        description="Rebuilds result.json and report.md from the replays in a result folder, and prints the "
        "table. Also works for unfinished evaluations.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="result folder")
    parser.add_argument(
        "--plots", action="store_true", help="save pictures beside the report (needs the extra plots)"
    )
    parser.add_argument(
        "--parquet",
        action="store_true",
        help=f"save the scores as {scores.FILE} beside the report (needs the extra logs)",
    )
    parser.set_defaults(run=report)


def report(options: Namespace) -> None:
    """Rebuild the result, the report and, if asked, the pictures of a folder, and print the table.

    Raises:
        EvaluationError: the folder is not a result folder, or contains no finished games.
        ReplayError: the replay file is damaged.
    """
    folder, conditions = ResultFolder.of_evaluation(options.folder)
    earlier = earlier_run(folder)
    # Fail before minutes of work, not after them.
    draw = pictures_of("octofold_client.analysis.pictures").draw if options.plots else None
    write_scores = scores.parquet_writer() if options.parquet else None
    climb = Climb()
    games = GameTable()
    for episodes in batched(folder.finished(), GAMES_AT_ONCE):
        for episode in episodes:
            games.append(GameSummary.of(episode))
        if draw is not None:
            climb.add(episodes)
    if not games:
        raise EvaluationError(f"{folder.replays} contains no finished games")
    games = games.in_order()
    evaluation = Evaluation(conditions, games, Summary.of(games), *earlier)
    drawn = [] if draw is None else draw(folder.path, evaluation, climb)
    evaluation.write(folder, write_report(evaluation, drawn))
    if write_scores is not None:
        write_scores(evaluation, folder.path / scores.FILE)
    print_report(evaluation.summary, evaluation.title, Console())
    if evaluation.missing_games:
        print(missing_note(evaluation.missing_games), file=sys.stderr)
    print()
    print(f"result:  {folder.result}")
    print(f"report:  {folder.report}")
    if options.parquet:
        print(f"scores:  {folder.path / scores.FILE}")
    for name in drawn:
        print(f"picture: {folder.path / name}")
