"""The flags that spread an evaluation over a Ray cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from octofold_game.commands.options import option

from octofold_client.cli.arguments import (
    DEFAULT_TARGET,
    SERVERS,
    Names,
    PlayersFlag,
    ServerFlags,
    Targets,
)
from octofold_client.errors import ClusterError
from octofold_client.extras import needing

if TYPE_CHECKING:  # an extra
    from octofold_client.ray.games import RayCluster

SERVICE = "octofold"
"""Default name of a service on a cluster."""
LOOK_SECONDS = 0.5


@dataclass(kw_only=True)
class ClusterFlags(ServerFlags, PlayersFlag):
    """Who plays, which servers to ask, and the Ray cluster that spreads the games."""

    targets: Targets = option([], SERVERS, flag="--target")
    models: Names = option(
        [],
        "models to play one after the other, NAME or NAME:VERSION (default: the server's default model)",
        flag="--model",
    )

    ray: str | None = option(
        None,
        "play the games in tasks of this Ray cluster, with its replicas (octofold ray serve) unless --target "
        "is given; without an address, the cluster of this machine",
        metavar="HOST:PORT",
        const="auto",
        begins="spreading over a Ray cluster",
    )
    ray_name: str = option(SERVICE, "name of the replicas")

    @contextmanager
    def cluster(self) -> Iterator["tuple[Sequence[str], RayCluster | None]"]:
        """The servers to ask, and the cluster that plays; connected to it while the block runs.

        Raises:
            ClusterError: no cluster answers, or no replica serves there.
            EvaluationError: Ray is not installed.
        """
        if self.ray is None:
            yield self.targets or [DEFAULT_TARGET], None
            return
        with needing("ray"):
            from octofold_client.ray import cluster
            from octofold_client.ray.games import RayCluster
            from octofold_client.ray.placement import addresses
        credentials = self.credential_files().absolute()
        with cluster.connected(self.ray):
            if self.targets or (self.players and not self.models):
                yield self.targets, RayCluster(credentials, lambda: self.targets)
                return

            targets: list[str] = addresses(self.ray_name)
            if not targets:
                raise ClusterError(
                    f"the Ray cluster has no replica named {self.ray_name}: place some with octofold ray "
                    "serve, or name a server with --target"
                )
            # Later, games wait for the answer. A replica whose node has just died gives none.
            yield targets, RayCluster(credentials, lambda: addresses(self.ray_name, LOOK_SECONDS))
