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
from octofold_client.cli.playing import evaluate_into, folder_of, show
from octofold_client.contenders.contender import Contender
from octofold_client.contenders.player_specs import local_player
from octofold_client.errors import EvaluationError
from octofold_client.evaluation.result_folder import check_writable
from octofold_client.evaluation.servers import answering, select_on


def add(subcommands: "Subcommands") -> None:
    parser = subcommands.add_parser(
        "evaluate",
        help="play games and judge them",
        description="Plays full games against a server, or by a player in this process, and prints how well "
        "they went. Every move is kept: after Ctrl-C or a lost connection, the same command goes on where it "
        "stopped.",
    )
    add_servers(parser)
    parser.add_argument(
        "--model",
        type=listed,
        default=[],
        dest="models",
        metavar="NAME[,NAME ...]",
        help="played one after the other; NAME:N is version N (default: the server's default model)",
    )
    parser.add_argument("--version", default="", metavar="N", help="default: the newest that is ready")
    add_players(parser)
    add_games(parser)
    parser.set_defaults(run=evaluate)


def evaluate(options: Namespace) -> None:
    """Plays games against running servers or by local players, one model or player after the other, and
    prints how they went.
    """
    if options.out:
        check_writable(options.out)
    # The server's default model plays only where nobody is named at all.
    models = options.models or ([] if options.players else [""])
    if options.version and not models:
        raise EvaluationError("--version is of a server's model, and only local players are to play")
    if models:
        options.targets = answering(options.targets, credentials_of(options))
    every: list[Contender] = [
        select_on(options.targets, *asked_for(model, options.version), credentials_of(options))
        for model in models
    ]
    every += map(local_player, options.players)
    for number, contender in enumerate(every):
        if number:
            print()
        show(*evaluate_into(folder_of(contender, options, alone=len(every) == 1), contender, options))
