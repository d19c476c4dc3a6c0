"""`octofold evaluate`: plays full games with served models or local players, and prints the results."""

from argparse import Namespace
from contextlib import ExitStack

from octofold_client.cli.arguments import (
    Subcommands,
    add_games,
    add_players,
    add_servers,
    add_slice,
    asked_for,
    credentials_of,
    listed,
)
from octofold_client.cli.json_output import add_json, print_json
from octofold_client.cli.playing import Games, Players, as_json, show
from octofold_client.cli.spreading import add_cluster, cluster_of
from octofold_client.errors import UsageError


def add(subcommands: "Subcommands") -> None:
    """Add the subcommand."""
    parser = subcommands.add_parser(
        "evaluate",
        help="measure how strong a player is",
        description="Plays full games with the moves of a server or of a local player, and prints scores and "
        "tiles with 95% intervals. Every move is kept: after Ctrl-C or a lost connection, the same command "
        "continues where it stopped.",
    )
    add_servers(parser, default="", use=" to share the games")  # with --ray, the default are its replicas
    parser.add_argument(
        "--model",
        type=listed,
        default=[],
        dest="models",
        metavar="NAME[,NAME ...]",
        help="models to play one after the other, NAME or NAME:VERSION (default: the server's default model)",
    )
    parser.add_argument(
        "--version", default="", metavar="N", help="version of the models (default: the newest ready version)"
    )
    add_players(parser)
    add_games(parser)
    add_slice(parser)
    add_json(parser)
    add_cluster(parser)
    parser.set_defaults(run=evaluate)


def evaluate(options: Namespace) -> None:
    """Play games with one model or local player after the other, and print the results.

    Raises:
        UsageError: the flags contradict each other.
        EvaluationError: the folder is not usable.
        OctofoldError: a call to the server failed.
    """
    games = Games.of(options)
    # The server's default model plays only if no model and no player is named.
    models = options.models or ([] if options.players else [""])
    if options.version and not models:
        raise UsageError("--version needs a model of a server, but only local players are named")
    wanted = [asked_for(model, options.version) for model in models]
    with ExitStack() as stack:
        targets, cluster = stack.enter_context(cluster_of(options))
        players = stack.enter_context(
            Players(targets, wanted, credentials_of(options), options.players, cluster)
        )
        alone = len(players.contenders) == 1
        described = []
        for number, contender in enumerate(players.contenders):
            folder = games.folder_of(contender, alone=alone)
            evaluation = players.play(contender, folder, games)
            if options.json:
                described.append(as_json(folder, evaluation))
                continue
            if number:
                print()
            show(folder, evaluation)
        if options.json:
            print_json({"evaluations": described})
