"""`octofold compare`: which of two players is better, and how sure that is.

`evaluation/comparison.py` works out the figures, `evaluation/sequential.py` says when to stop.
"""

import functools
import sys
from argparse import Namespace
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
from octofold_client.cli.playing import evaluate_into, folder_of
from octofold_client.contenders.contender import Contender
from octofold_client.contenders.player_specs import local_player
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.comparison import Comparison, markdown
from octofold_client.evaluation.report import missing_note
from octofold_client.evaluation.result_folder import Conditions, ResultFolder, check_writable
from octofold_client.evaluation.sequential import next_look
from octofold_client.evaluation.servers import answering, select_on


def add(subcommands: "Subcommands") -> None:
    parser = subcommands.add_parser(
        "compare",
        help="say which of two players is better, and how sure that is",
        usage="%(prog)s [A] [B] [--player SPEC] [--player SPEC] [options]",
        description="Compares two result folders, or two models of a server or local players, on the same "
        "games: the average difference, its 95% interval and a plain sentence.",
    )
    parser.add_argument(
        "sides",
        nargs="*",
        metavar="A B",
        help="two folders of results, or models: NAME or NAME:VERSION; fewer where --player names the rest",
    )
    add_players(parser)
    add_servers(parser)
    add_games(parser)
    parser.add_argument(
        "--until-decided",
        action="store_true",
        help="play on until the interval excludes zero; has a false-positive rate of at most 5%%",
    )
    parser.add_argument(
        "--limit",
        type=functools.partial(count, most=MOST_GAMES),
        default=10_000,
        metavar="N",
        help="games at which --until-decided gives up (default %(default)s)",
    )
    parser.set_defaults(run=compare)


def compare(options: Namespace) -> None:
    """Compares two result folders as they are, or plays the games of two models or local players first.

    Raises `EvaluationError` for two sides that cannot be compared.
    """
    sides = [*options.sides, *options.players]
    if len(sides) != 2:
        raise EvaluationError(f"compare takes two sides, such as A B or A --player SPEC, not {len(sides)}")
    folders = [side for side in options.sides if Path(side).is_dir()]
    if len(folders) == 2:
        if options.until_decided:
            raise EvaluationError("--until-decided plays games: name two models, not two folders of results")
        comparison = _of_folders(*map(Path, folders))
    elif folders:
        other = next(side for side in sides if side not in folders)
        raise EvaluationError(f"{folders[0]} is a folder of results, {other} is not: compare two of a kind")
    else:
        comparison = _of_contenders(options)
    print(markdown(comparison))


def _of_folders(first: Path, second: Path) -> Comparison:
    ours, theirs = (_conditions(folder) for folder in (first, second))
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
    if options.out:
        check_writable(options.out)
    if options.sides:
        options.targets = answering(options.targets, credentials_of(options))
    every: list[Contender] = [
        select_on(options.targets, *asked_for(side), credentials_of(options)) for side in options.sides
    ]
    every += map(local_player, options.players)
    first, second = every
    if Conditions.of(first, 0) == Conditions.of(second, 0):
        raise EvaluationError(f"both are {first.title}")
    folders = [folder_of(contender, options, alone=False) for contender in every]
    games = next_look(0, options.limit) if options.until_decided else options.games
    while True:
        scores = []
        for contender, folder in zip(every, folders, strict=True):
            _, evaluation = evaluate_into(folder, contender, options, games)
            scores.append({game.game: game.score for game in evaluation.games})
        comparison = Comparison.of(first.title, scores[0], second.title, scores[1], options.until_decided)
        if not options.until_decided or comparison.decided or games == options.limit:
            return comparison
        games = next_look(games, options.limit)


def _conditions(folder: Path) -> Conditions:
    conditions = ResultFolder(folder).conditions()
    if conditions is None:
        raise EvaluationError(f"{folder} holds no evaluation")
    return conditions


def _scores(folder: Path) -> dict[int, int]:
    return {episode.game: episode.score for episode in ResultFolder(folder).finished()}
