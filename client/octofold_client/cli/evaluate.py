"""`octofold evaluate`: plays full games against servers, or by local players, and prints how they went."""

from argparse import Namespace

from octofold_client.cli.arguments import (
    Subcommands,
    add_games,
    add_players,
    add_servers,
    asked_for,
    credentials_of,
    listed,
)
from octofold_client.cli.playing import Games, Players, show
from octofold_client.errors import EvaluationError


def add(subcommands: "Subcommands") -> None:
    parser = subcommands.add_parser(
        "evaluate",
        help="play games and measure how strong a player is",
        description="Plays full games with the moves of a server, or of a player in this process, and prints "
        "scores and tiles with their intervals. Every move is kept: after Ctrl-C or a lost connection, the "
        "same command continues where it stopped.",
    )
    add_servers(parser)
    parser.add_argument(
        "--model",
        type=listed,
        default=[],
        dest="models",
        metavar="NAME[,NAME ...]",
        help="models, played one after the other; NAME:N is version N (default: the server's default model)",
    )
    parser.add_argument(
        "--version", default="", metavar="N", help="version of the models (default: the newest that is ready)"
    )
    add_players(parser)
    add_games(parser)
    parser.set_defaults(run=evaluate)


def evaluate(options: Namespace) -> None:
    """Plays games against running servers or by local players, one model or player after the other, and
    prints how they went.
    """
    games = Games.of(options)
    # The server's default model plays only where nobody is named at all.
    models = options.models or ([] if options.players else [""])
    if options.version and not models:
        raise EvaluationError("--version is of a server's model, and only local players are to play")
    wanted = [asked_for(model, options.version) for model in models]
    with Players(options.targets, wanted, credentials_of(options), options.players) as players:
        alone = len(players.contenders) == 1
        for number, contender in enumerate(players.contenders):
            if number:
                print()
            folder = games.folder_of(contender, alone=alone)
            show(folder, players.play(contender, folder, games))
