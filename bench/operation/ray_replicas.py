"""Measures what Ray costs: boards per second through replicas on a cluster, and through a server without Ray.

Every caller connects directly, as clients of Octofold do. The cluster has one node, this machine. On two
cores more replicas cannot be faster; the figures show whether a server that Ray placed is slower.

    python bench/operation/ray_replicas.py --model swift --replicas 2 --rounds 5 --seconds 2
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import ray
from numpy.random import default_rng
from octofold_client.ray.placement import Placement, ServicePlan
from octofold_client.ray.replica import Serving
from octofold_client.rpc.client import Client
from octofold_client.rpc.local_server import LocalServer

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import interleave, medians, report

CALLERS = 4
OPTIONS = ("--lanes", "1", "--device", "cpu")


def boards_per_second(clients: Sequence[Client], model: str, boards: int, seconds: float) -> float:
    """Boards answered per second, while each of `CALLERS` callers sends one call after the other."""
    question = default_rng(1).integers(0, 8, (boards, 16))
    started = time.monotonic()
    end = started + seconds
    answered = [0] * CALLERS

    def call(caller: int) -> None:
        client = clients[caller % len(clients)]
        while time.monotonic() < end:
            client.next_moves(question, model=model, with_probabilities=False)
            answered[caller] += boards

    callers = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    return sum(answered) / (time.monotonic() - started)


def place(stack: ExitStack, models: Path, replicas: int) -> list[str]:
    """Replicas on the cluster, until the stack ends; returns their addresses."""
    plan = ServicePlan(f"bench-{replicas}", Serving(models.absolute(), OPTIONS), replicas, cpus=0.1)
    placed = Placement(plan, lambda text: print(text, file=sys.stderr), lambda _: None)
    stack.callback(placed.stop, lambda: None)
    placed.start(lambda: None)
    return placed.addresses


def main() -> None:
    """Measure in turns, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", type=Path, default=Path("models"), metavar="DIR")
    parser.add_argument("--model", default="swift", metavar="NAME")
    parser.add_argument("--replicas", type=int, default=2, metavar="N")
    parser.add_argument("--boards", type=int, default=64, metavar="N", help="boards of a call")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S", help="seconds of a measurement")
    options = parser.parse_args()

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, namespace="octofold")
    with ExitStack() as stack:
        server = stack.enter_context(LocalServer(options.models, OPTIONS))
        targets = {
            "one server without Ray": [server.target],
            "one replica": place(stack, options.models, 1),
            f"{options.replicas} replicas": place(stack, options.models, options.replicas),
        }
        measures = {}
        for name, addresses in targets.items():
            clients = [stack.enter_context(Client(address)) for address in addresses]
            measures[name] = partial(
                boards_per_second, clients, options.model, options.boards, options.seconds
            )
        interleave(measures, 1)  # connects
        found = medians(interleave(measures, options.rounds))
    ray.shutdown()
    alone = found["one server without Ray"]
    report(
        f"{options.model}, {CALLERS} callers, {options.boards} boards a call",
        ["", "boards/s", "of one server"],
        [[name, f"{value:,.0f}", f"{value / alone:.0%}"] for name, value in found.items()],
        boards_per_second=found,
    )


if __name__ == "__main__":
    main()
