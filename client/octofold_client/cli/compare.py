"""`octofold compare`: which of two players is better, and how sure that is.

`evaluation/comparison.py` works out the figures, `evaluation/sequential.py` says when to stop.
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
from octofold_client.cli.playing import Games, Players
from octofold_client.errors import EvaluationError, Unavailable, UnknownModel
from octofold_client.evaluation.comparison import Comparison, markdown
from octofold_client.evaluation.report import missing_note
from octofold_client.evaluation.result_folder import Conditions, ResultFolder, existing
from octofold_client.evaluation.sequential import next_look


def add(subcommands: "Subcommands") -> None:
    parser = subcommands.add_parser(
        "compare",
        help="find out which of two players is better, and how sure that is",
        usage="%(prog)s [A] [B] [--player SPEC] [--player SPEC] [options]",
        description="Compares two result folders, or two models of a server or local players, on the same "
        "games: the average difference, its 95% interval and a plain sentence.",
    )
    parser.add_argument(
        "sides",
        nargs="*",
        metavar="A B",
        help="two folders of results, or two models, NAME or NAME:VERSION; --player replaces one or both",
    )
    add_players(parser)
    add_servers(parser)
    add_games(parser)
    parser.add_argument(
        "--until-decided",
        action="store_true",
        help="play on until the interval excludes zero, with a false-positive rate of at most 5%%",
    )
    parser.add_argument(
        "--limit",
        type=functools.partial(count, most=MOST_GAMES),
        default=10_000,
        metavar="N",
        help="maximum games of --until-decided (default %(default)s)",
    )
    parser.set_defaults(run=compare)


def compare(options: Namespace) -> None:
    """Compares two result folders as they are, or plays the games of two models or local players first.

    Raises `EvaluationError` for two sides that cannot be compared.
    """
    sides = [*options.sides, *options.players]
    if len(sides) != 2:
        raise EvaluationError(f"compare takes two sides, such as A B or A --player SPEC, not {len(sides)}")
    folders = [Path(side) for side in options.sides if _means_folder(side)]
    if len(folders) == 2:
        if options.until_decided:
            raise EvaluationError("--until-decided plays games: name two models, not two folders of results")
        comparison = _of_folders(*folders)
    elif folders:
        other = next(side for side in (*options.players, *options.sides) if not _means_folder(side))
        raise EvaluationError(
            f"{existing(folders[0])} is a folder of results, and {other} is not a folder: compare two "
            "folders, or two players"
        )
    else:
        comparison = _of_contenders(options)
    print(markdown(comparison))


def _means_folder(side: str) -> bool:
    """Whether a side is a folder of results; one with a slash in it is, even if it does not exist."""
    return Path(side).is_dir() or os.sep in side


def _of_folders(first: Path, second: Path) -> Comparison:
    (_, ours), (_, theirs) = (ResultFolder.of_evaluation(folder) for folder in (first, second))
    if ours.seed != theirs.seed:
        raise EvaluationError(
            f"{first} holds games of seed {ours.seed}, {second} of seed {theirs.seed}: "
            "only the same games can be compared"
        )
    names = [side.player for side in (ours, theirs)]
    if names[0] == names[1]:
        names = [str(first), str(second)]
    scores = [_scores(folder) for folder in (first, second)]
    for folder, games in zip((first, second), scores, strict=True):
        if missing := max(games, default=-1) + 1 - len(games):
            print(f"{folder}: {missing_note(missing)}", file=sys.stderr)
    return Comparison.of(names[0], scores[0], names[1], scores[1])


def _of_contenders(options: Namespace) -> Comparison:
    games = Games.of(options)
    models = [asked_for(side) for side in options.sides]
    try:
        stack = ExitStack()
        players = stack.enter_context(
            Players(options.targets, models, credentials_of(options), options.players)
        )
    except (Unavailable, UnknownModel) as error:
        sides = " and ".join(options.sides)
        raise EvaluationError(f"{error} ({sides}: no such folder here, so a model is meant)") from None
    with stack:
        first, second = players.contenders
        if Conditions.of(first, 0) == Conditions.of(second, 0):
            raise EvaluationError(f"both are {first.title}")
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
                return comparison
            number = next_look(number, options.limit)


def _scores(folder: Path) -> dict[int, int]:
    return {episode.game: episode.score for episode in ResultFolder(folder).finished()}
