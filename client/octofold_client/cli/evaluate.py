"""`octofold evaluate`: plays full games with served models or local players, and prints the results."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from octofold_game.commands.options import Name, option
from octofold_game.commands.subcommands import Command
from rich.console import Console

from octofold_client.cli.game_flags import GameFlags, SliceFlag, folder_of, games_of
from octofold_client.cli.judge_flags import LuckFlag
from octofold_client.cli.result_output import as_json, print_table
from octofold_client.cli.shared_flags import JsonFlag, Names, PlayersFlag, name_and_version, print_json
from octofold_client.contenders.local_players import local_player
from octofold_client.errors import UsageError
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.evaluation_run import Players
from octofold_client.extras import require_extra
from octofold_client.studies.play_logs import write_logs
from octofold_client.terminal.display import count_on, display_on
from octofold_client.wording import counted

if TYPE_CHECKING:  # an extra
    from octofold_client.ray.games import RayCluster


@dataclass(kw_only=True)
class Options(JsonFlag, SliceFlag, GameFlags, LuckFlag, PlayersFlag):
    """Options of `octofold evaluate`."""

    models: Names = option(
        [],
        "models that play one after the other, NAME or NAME:VERSION (default: the server's default model)",
        flag="--model",
    )
    logs: bool = option(
        False, "also write the moves into play logs in the result folder, as training data for networks"
    )
    version: Name = option("", "version of the models (default: the newest ready version)", metavar="N")
    ray: str | None = option(
        None,
        "play the games in tasks of this Ray cluster (without HOST:PORT: the one that RAY_ADDRESS "
        "names, or that of this machine); the tasks call the servers of --target",
        metavar="HOST:PORT",
        const="auto",
        heading="spreading games over a Ray cluster",
    )

    @contextmanager
    def cluster(self) -> Iterator["RayCluster | None"]:
        """Connect to the cluster of --ray and yield it; yield None without the flag.

        Raises:
            ClusterError: the cluster cannot be joined.
            EvaluationError: Ray is not installed.
        """
        if self.ray is None:
            yield None
            return
        with require_extra("ray"):
            from octofold_client.ray import cluster
            from octofold_client.ray.games import RayCluster
        with cluster.connected(self.ray):
            yield RayCluster(self.targets, self.credentials_reader())


def evaluate(options: Options) -> None:
    """Play games with one model or local player after the other, and print the results.

    Raises:
        UsageError: the flags contradict each other.
        EvaluationError: the result folder cannot be used.
        OctofoldError: a call to the server failed.
    """
    games = games_of(options)
    # The server's default model plays only if no model and no player is named.
    models = options.models or ([] if options.players else [""])
    if options.version and not models:
        raise UsageError("--version requires --model, but only local players are given")
    wanted = [name_and_version(model, options.version) for model in models]
    with ExitStack() as stack:
        cluster = stack.enter_context(options.cluster())
        local = [local_player(spec) for spec in options.players]
        credentials, patience = options.credentials(), options.patience or 0
        players = stack.enter_context(Players(options.targets, wanted, credentials, local, cluster, patience))
        games = replace(games, values=options.values(stack))
        alone = len(players.contenders) == 1
        described = []
        for number, contender in enumerate(players.contenders):
            folder = folder_of(options, games, contender, alone=alone)
            evaluation = players.play(contender, folder, games)
            logs = _write_logs(folder, players.check) if options.logs else None
            if options.json:
                described.append(as_json(folder, evaluation) | ({} if logs is None else {"logs": logs}))
                continue
            if number:
                print()
            print_table(folder, evaluation)
            for log in logs or []:
                print(f"log:     {log['file']}: {counted(log['moves'], 'move')}")
        if options.json:
            print_json({"evaluations": described})


def _write_logs(folder: ResultFolder, check: Callable[[], None]) -> list[dict[str, Any]]:
    """Write the moves into play logs. Return the file and the number of moves of each log."""
    total = sum(map(len, folder.finished()))
    with count_on(display_on(Console(stderr=True)), total, "written to logs", "moves") as count:
        files = write_logs(folder, count, check)
    return [{"file": str(file), "moves": moves} for file, moves in files.items()]


COMMAND = Command(
    "evaluate",
    "measure how strong a player is",
    "Plays full games with the moves of a server or of a local player, and prints scores and "
    "tiles with 95% intervals. Every move is kept: after Ctrl-C or a lost connection, the same command "
    "continues where it stopped.",
    Options,
    evaluate,
    examples=(
        "--model flagship --games 1000",
        "--player expectimax:depth=2 --games 50",
        "--target server:50051 --model mine:3 --out results/mine",
    ),
)
