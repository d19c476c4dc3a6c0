"""`octofold evaluate`: plays full games with served models or local players, and prints the results."""

from contextlib import ExitStack
from dataclasses import dataclass

from octofold_game.commands.options import Name, option
from octofold_game.commands.subcommands import Command

from octofold_client.cli.arguments import GameFlags, SliceFlag, asked_for
from octofold_client.cli.json_output import JsonFlag, print_json
from octofold_client.cli.playing import Games, as_json, play, show
from octofold_client.cli.spreading import ClusterFlags
from octofold_client.contenders.local_players import local_player
from octofold_client.errors import UsageError
from octofold_client.session import Players


@dataclass(kw_only=True)
class Options(ClusterFlags, JsonFlag, SliceFlag, GameFlags):
    """Its options."""

    version: Name = option("", "version of the models (default: the newest ready version)", metavar="N")


def evaluate(options: Options) -> None:
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
        cluster = stack.enter_context(options.cluster())
        local = [local_player(spec) for spec in options.players]
        players = stack.enter_context(Players(options.targets, wanted, options.credentials(), local, cluster))
        alone = len(players.contenders) == 1
        described = []
        for number, contender in enumerate(players.contenders):
            folder = games.folder_of(contender, alone=alone)
            evaluation = play(players, contender, folder, games)
            if options.json:
                described.append(as_json(folder, evaluation))
                continue
            if number:
                print()
            show(folder, evaluation)
        if options.json:
            print_json({"evaluations": described})


COMMAND = Command(
    "evaluate",
    "measure how strong a player is",
    "Plays full games with the moves of a server or of a local player, and prints scores and "
    "tiles with 95% intervals. Every move is kept: after Ctrl-C or a lost connection, the same command "
    "continues where it stopped.",
    Options,
    evaluate,
)
