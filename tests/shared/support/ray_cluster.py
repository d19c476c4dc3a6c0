"""A Ray cluster of three nodes on this machine, as a program: it prints its address and ends with its input.

A line `kill N` kills node N. In a process of its own, Ray leaves neither threads nor warnings in the tests.
"""

import sys
from typing import Any

CPUS = (1, 1, 1)
"""The CPUs that each node declares; node 0 is the head."""
STORE_BYTES = 80 * 2**20
HEALTH = {"health_check_period_ms": 200, "health_check_failure_threshold": 10}
"""Ray declares a killed node dead after two seconds, not fifteen; a busy node still has ten to answer."""
TRIES = 3
"""Number of attempts to start: on a busy machine, a node may not start within Ray's thirty seconds."""


def started() -> tuple[Any, list[Any]]:
    """Return the cluster and its nodes."""
    from ray.cluster_utils import Cluster

    options: list[dict[str, Any]] = [{"num_cpus": cpus, "object_store_memory": STORE_BYTES} for cpus in CPUS]
    for attempt in range(1, TRIES + 1):
        cluster = Cluster()
        try:
            nodes = [cluster.add_node(include_dashboard=False, _system_config=HEALTH, **options[0])]
            nodes += [cluster.add_node(wait=False, **node) for node in options[1:]]
            cluster.wait_for_nodes()
            return cluster, nodes
        except Exception:
            cluster.shutdown()
            if attempt == TRIES:
                raise
    raise AssertionError


def main() -> None:
    cluster, nodes = started()
    print(cluster.address, flush=True)
    for line in sys.stdin:
        cluster.remove_node(nodes[int(line.removeprefix("kill "))], allow_graceful=False)
    cluster.shutdown()


if __name__ == "__main__":
    main()
