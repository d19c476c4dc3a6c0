"""A Ray cluster of three nodes on this machine, as a program: it prints its address and ends with its input.

A line `kill N` kills node N. In a process of its own, Ray leaves neither threads nor warnings in the tests.
"""

import sys

CPUS = (1, 1, 1)
"""The CPUs that each node declares; node 0 is the head."""
STORE_BYTES = 80 * 2**20


def main() -> None:
    from ray.cluster_utils import Cluster

    first, *others = ({"num_cpus": cpus, "object_store_memory": STORE_BYTES} for cpus in CPUS)
    cluster = Cluster(initialize_head=True, head_node_args={**first, "include_dashboard": False})
    nodes = [cluster.head_node, *(cluster.add_node(wait=False, **options) for options in others)]
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    for line in sys.stdin:
        cluster.remove_node(nodes[int(line.removeprefix("kill "))], allow_graceful=False)
    cluster.shutdown()


if __name__ == "__main__":
    main()
