"""`octofold play`: starts a server, evaluates a model on it and stops it."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from octofold_game.commands.options import Folder, option
from octofold_game.commands.subcommands import Command
from octofold_game.contract.results import RESULTS
from rich.console import Console
from rich.text import Text

from octofold_client.cli.game_flags import GameFlags, SliceFlag, folder_name, games_of, result_folders
from octofold_client.cli.judge_flags import DEFAULT_MODELS, shipped_judge
from octofold_client.cli.result_output import print_result
from octofold_client.cli.shared_flags import JsonFlag, ModelFlags, name_and_version
from octofold_client.contenders.local_players import Contender
from octofold_client.errors import EvaluationError, FolderInUse, OctofoldError
from octofold_client.evaluation.result_folder import Conditions, ResultFolder, check_writable, existing
from octofold_client.evaluation_run import Games, Players
from octofold_client.rpc.local_server import LocalServer


@dataclass(kw_only=True)
class Options(JsonFlag, SliceFlag, GameFlags, ModelFlags):
    """Options of `octofold play`."""

    models: Folder = option(DEFAULT_MODELS, "serve this model repository")


def play(options: Options) -> None:
    """Start a server, play games on it, and always stop it.

    An interrupted evaluation is continued. Without --out, if it is complete or in use by another program, a
    new one begins in another folder.

    Raises:
        EvaluationError: the model repository or the folder is not usable.
        ServerDied: the server ended, or was not ready in time.
        OctofoldError: a call failed.
    """
    games = replace(games_of(options), values=shipped_judge(options.models))
    requested = name_and_version(options.model, options.version)
    _check_models(options.models)
    if not options.out:
        check_writable(RESULTS)
    starting = Text(f"Starting a server with the models in {options.models} ...", style="dim")
    Console(stderr=True).print(starting)
    with LocalServer(options.models) as server:
        try:
            with Players([server.target], [requested]) as players:
                (contender,) = players.contenders
                for folder in _folders(contender, games, options.out):
                    with suppress(*() if options.out else (FolderInUse,)):
                        print_result(folder, players.play(contender, folder, games), options)
                        return
        except OctofoldError:
            server.check()  # if the server has ended, its log says more than the error of the call
            raise


def _check_models(folder: Path) -> None:
    if folder != DEFAULT_MODELS:
        existing(folder)
    elif not folder.is_dir():
        raise EvaluationError(
            f"there is no folder {folder}: run this in a clone of Octofold, which contains models, or give a "
            "model repository with --models"
        )


def _folders(contender: Contender, games: Games, out: Path | None) -> Iterator[ResultFolder]:
    """Yield the folders in which the evaluation can be played, in order of preference.

    With --out, the only folder is --out. Otherwise, the folders are NAME, NAME-2, NAME-3 ... except folders
    with another evaluation and folders in which this evaluation is finished.
    """
    if out:
        yield ResultFolder(out)
        return
    conditions = Conditions.of(contender, games.seed, games.wanted)
    name = folder_name("play", contender, games)
    for folder in map(ResultFolder, result_folders(name)):
        known = folder.conditions()
        if known is None or (known == conditions and folder.read()[1].missing):
            yield folder


COMMAND = Command(
    "play",
    "start a server, evaluate a model on it, stop it",
    "Starts a server on a free loopback port, evaluates a model on it and stops it. The "
    "server reads the environment variables of octofold-serve, such as OCTOFOLD_DEVICE.",
    Options,
    play,
    examples=("", "--games 20 --model swift", "--model mine:2 --games 1000 --out results/mine"),
)
