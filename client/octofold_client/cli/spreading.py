"""The flags that spread an evaluation over a Ray cluster, and the tasks that they mean."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from octofold_client.cli.arguments import DEFAULT_TARGET, credential_files
from octofold_client.cli.playing import Cluster
from octofold_client.contenders.player_specs import LocalPlayer
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import ClusterError
from octofold_client.evaluation.evaluate import PlayGames
from octofold_client.evaluation.result_folder import Conditions
from octofold_client.extras import ray_part

SERVICE = "octofold"
"""Default name of a service on a cluster."""
LOOK_SECONDS = 0.5


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add `--ray` and `--ray-name`."""
    ray = parser.add_argument_group("spreading over a Ray cluster")
    ray.add_argument(
        "--ray",
        nargs="?",
        const="auto",
        metavar="HOST:PORT",
        help="play the games in tasks of this Ray cluster, with its replicas (octofold ray serve) unless "
        "--target is given; without an address, the cluster of this machine",
    )
    ray.add_argument(
        "--ray-name", default=SERVICE, metavar="NAME", help="name of the replicas (default: %(default)s)"
    )


@contextmanager
def cluster_of(options: argparse.Namespace) -> Iterator[tuple[Sequence[str], Cluster | None]]:
    """The servers to ask, and the cluster that plays; connected to it while the block runs.

    Raises:
        ClusterError: no cluster answers, or no replica serves there.
        EvaluationError: Ray is not installed.
    """
    if options.ray is None:
        yield options.targets or [DEFAULT_TARGET], None
        return
    cluster, directory = ray_part("cluster"), ray_part("directory")
    with cluster.connected(options.ray):
        if options.targets or (options.players and not options.models):
            yield options.targets, RayCluster(options, lambda: options.targets)
            return

        targets: list[str] = directory.addresses(options.ray_name)
        if not targets:
            raise ClusterError(
                f"the Ray cluster has no replica named {options.ray_name}: place some with octofold ray "
                "serve, or name a server with --target"
            )
        # Later, games wait for the answer. A replica whose node has just died gives none.
        yield targets, RayCluster(options, lambda: directory.addresses(options.ray_name, LOOK_SECONDS))


@dataclass(frozen=True)
class RayCluster:
    """The tasks of a Ray cluster."""

    options: argparse.Namespace
    targets: Callable[[], Sequence[str]]

    def play(
        self,
        contender: ServedModel | LocalPlayer,
        seed: int,
        parallel: int,
        remark: Callable[[str], None],
        check: Callable[[], None],
    ) -> PlayGames:
        """Play games of this contender in tasks."""
        tasks = ray_part("tasks")
        player = tasks.Player(credentials=credential_files(self.options).absolute())
        if isinstance(contender, LocalPlayer):
            player = replace(player, spec=contender.spec)
        else:
            player = replace(player, model=contender.model, version=contender.version.version)
        spread: PlayGames = ray_part("games").Spread(
            player, Conditions.of(contender, seed), parallel, self.targets, remark, check
        )
        return spread
