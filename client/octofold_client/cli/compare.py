"""`octofold compare`: compares two players on the same games.

`evaluation/comparison.py` computes the figures, and `evaluation/sequential.py` decides when to stop.
"""

import functools
import os
import sys
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path

from octofold_client.cli.arguments import (
    MOST_GAMES,
    Subcommands,
    add_games,
    add_players,
    add_servers,
    asked_for,
    count,
    credentials_of,
)
from octofold_client.cli.html_report import HTML_FILE, add_html, check_html, write_html
from octofold_client.cli.playing import Games, Players
from octofold_client.errors import EvaluationError, Unavailable, UnknownModel
from octofold_client.evaluation.comparison import Comparison, markdown
from octofold_client.evaluation.report import missing_note
from octofold_client.evaluation.result_folder import Conditions, ResultFolder, existing
from octofold_client.evaluation.sequential import next_look


def add(subcommands: "Subcommands") -> None:
    """Add the subcommand."""
    parser = subcommands.add_parser(
        "compare",
        help="compare two players on the same games",
        usage="%(prog)s [A] [B] [--player SPEC] [--player SPEC] [options]",
        description="Compares two result folders, models or local players on the same games. Prints the "
        "average difference in score and its 95% interval.",
    )
    parser.add_argument(
        "sides",
        nargs="*",
        metavar="A B",
        help="two result folders, or two models, NAME or NAME:VERSION; --player replaces one or both",
    )
    add_players(parser)
    add_servers(parser)
    add_games(parser)
    parser.add_argument(
        "--until-decided",
        action="store_true",
        help="play until the interval excludes zero, with a false-positive rate of at most 5%%",
    )
    parser.add_argument(
        "--limit",
        type=functools.partial(count, most=MOST_GAMES),
        default=10_000,
        metavar="N",
        help="maximum number of games with --until-decided (default: %(default)s)",
    )
    add_html(parser)
    parser.set_defaults(run=compare)


def compare(options: Namespace) -> None:
    """Compare two result folders, or play the games of two models or local players and compare those.

    Raises:
        EvaluationError: the two sides cannot be compared.
    """
    sides = [*options.sides, *options.players]
    if len(sides) != 2:
        raise EvaluationError(f"compare needs two sides, such as A B or A --player SPEC, got {len(sides)}")
    folders = [Path(side) for side in options.sides if _means_folder(side)]
    check_html(options)
    if len(folders) == 2:
        if options.until_decided:
            raise EvaluationError("--until-decided plays games and needs two players, not two result folders")
        comparison = _of_folders(*folders)
    elif folders:
        other = next(side for side in (*options.players, *options.sides) if not _means_folder(side))
        raise EvaluationError(
            f"cannot compare the result folder {existing(folders[0])} with {other}: give two result folders "
            "or two players"
        )
    else:
        comparison, folders = _of_contenders(options)
    print(markdown(comparison))
    if options.html:
        name = HTML_FILE.replace("report", "comparison")
        print(f"\n{write_html((options.out or folders[0]) / name, folders, [comparison.sentence])}")


def _means_folder(side: str) -> bool:
    """Whether a side means a result folder: it is a folder, or contains a slash."""
    return Path(side).is_dir() or os.sep in side


def _of_folders(first: Path, second: Path) -> Comparison:
    (_, ours), (_, theirs) = (ResultFolder.of_evaluation(folder) for folder in (first, second))
    if ours.seed != theirs.seed:
        raise EvaluationError(
            f"cannot compare different games: {first} has seed {ours.seed}, {second} has seed {theirs.seed}"
        )
    names = [side.player for side in (ours, theirs)]
    if names[0] == names[1]:
        names = [str(first), str(second)]
    scores = [_scores(folder) for folder in (first, second)]
    for folder, games in zip((first, second), scores, strict=True):
        if missing := max(games, default=-1) + 1 - len(games):
            print(f"{folder}: {missing_note(missing)}", file=sys.stderr)
    return Comparison.of(names[0], scores[0], names[1], scores[1])


def _of_contenders(options: Namespace) -> tuple[Comparison, list[Path]]:
    games = Games.of(options)
    models = [asked_for(side) for side in options.sides]
    try:
        stack = ExitStack()
        players = stack.enter_context(
            Players(options.targets, models, credentials_of(options), options.players)
        )
    except (Unavailable, UnknownModel) as error:
        sides = " and ".join(options.sides)
        raise EvaluationError(f"{error} ({sides}: not a folder, so read as a model)") from None
    with stack:
        first, second = players.contenders
        if Conditions.of(first, 0) == Conditions.of(second, 0):
            raise EvaluationError(f"both sides are {first.title}")
        folders = [games.folder_of(contender, alone=False) for contender in players.contenders]
        number = next_look(0, options.limit) if options.until_decided else games.number
        while True:
            evaluations = [
                players.play(contender, folder, games, number)
                for contender, folder in zip(players.contenders, folders, strict=True)
            ]
            scores = [{game.game: game.score for game in evaluation.games} for evaluation in evaluations]
            comparison = Comparison.of(first.title, scores[0], second.title, scores[1], options.until_decided)
            if not options.until_decided or comparison.decided or number == options.limit:
                return comparison, [folder.path for folder in folders]
            number = next_look(number, options.limit)


def _scores(folder: Path) -> dict[int, int]:
    return {episode.game: episode.score for episode in ResultFolder(folder).finished()}
