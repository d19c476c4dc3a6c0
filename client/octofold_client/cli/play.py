"""`octofold play`: an evaluation with a server of its own."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

from octofold_client.cli.arguments import RESULTS, Subcommands, add_games, add_model
from octofold_client.cli.playing import evaluate_into, folder_name, show
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import FolderInUse, OctofoldError
from octofold_client.evaluation.result_folder import Conditions, ResultFolder, check_writable
from octofold_client.evaluation.servers import select_on
from octofold_client.rpc.credentials import PLAINTEXT
from octofold_client.rpc.local_server import LocalServer


def add(subcommands: "Subcommands") -> None:
    parser = subcommands.add_parser(
        "play",
        help="start a server, evaluate a model on it, stop it",
        description="Like evaluate, with a server of its own on a free loopback port. OCTOFOLD_DEVICE and "
        "the other variables of octofold-serve reach that server.",
    )
    parser.add_argument(
        "--models", type=Path, default=Path("models"), metavar="DIR", help="the model repository"
    )
    add_model(parser)
    add_games(parser)
    parser.set_defaults(run=play)


def play(options: Namespace) -> None:
    """Plays games against a server of its own, which it stops whatever happens.

    Without --out, an evaluation that was interrupted is finished, and one that is complete, or that another
    program is at, is left alone: the next goes into a folder of its own beside it.
    """
    check_writable(options.out or RESULTS)
    starting = Text(f"Starting a server with the models in {options.models} ...", style="dim")
    Console(stderr=True).print(starting)
    with LocalServer(options.models) as server:
        options.targets = [server.target]
        selected = select_on(options.targets, options.model, options.version, PLAINTEXT)
        try:
            if options.out:
                show(*evaluate_into(ResultFolder(options.out), selected, options))
                return
            for folder in _unfinished(folder_name("play", selected, options), selected, options.seed):
                with suppress(FolderInUse):
                    show(*evaluate_into(folder, selected, options))
                    return
        except OctofoldError:
            server.check()  # a server that died says more than the call that it left unanswered
            raise


def _unfinished(name: str, selected: ServedModel, seed: int) -> Iterator[ResultFolder]:
    """Those of NAME, NAME-2, NAME-3 ... that are new, or were left unfinished under the same conditions."""
    conditions = Conditions.of(selected, seed)
    number = 1
    while True:
        folder = ResultFolder(RESULTS / (name if number == 1 else f"{name}-{number}"))
        if not folder.result.exists() and folder.conditions() in (None, conditions):
            yield folder
        number += 1
