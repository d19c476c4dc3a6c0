"""The flags that spread an evaluation over a Ray cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from octofold_game.commands.options import option

from octofold_client.cli.arguments import Names, PlayersFlag, ServerFlags
from octofold_client.extras import needing

if TYPE_CHECKING:  # an extra
    from octofold_client.ray.games import RayCluster


@dataclass(kw_only=True)
class ClusterFlags(ServerFlags, PlayersFlag):
    """Who plays, which servers to ask, and the Ray cluster that spreads the games."""

    models: Names = option(
        [],
        "models to play one after the other, NAME or NAME:VERSION (default: the server's default model)",
        flag="--model",
    )
    ray: str | None = option(
        None,
        "play the games in tasks of this Ray cluster, which ask the servers of --target; without an address, "
        "the cluster of this machine",
        metavar="HOST:PORT",
        const="auto",
        begins="spreading over a Ray cluster",
    )

    @contextmanager
    def cluster(self) -> Iterator["RayCluster | None"]:
        """The cluster that plays; connected to it while the block runs.

        Raises:
            ClusterError: no cluster answers.
            EvaluationError: Ray is not installed.
        """
        if self.ray is None:
            yield None
            return
        with needing("ray"):
            from octofold_client.ray import cluster
            from octofold_client.ray.games import RayCluster
        with cluster.connected(self.ray):
            yield RayCluster(self.targets, self.credential_files().absolute())
