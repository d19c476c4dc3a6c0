"""Measures boards per second of a model: in onnxruntime directly, and served over gRPC.

    python bench/serving/serving.py --model cnn5
    python bench/serving/serving.py --model cnn5 --memory-minutes 10   # resident size under load, every 10 s

The served figures are compared with the best direct figure. The load comes from processes of
`octofold loadtest` and from our clients, on the same cores. All measures take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import client_load
import numpy as np
import psutil
from direct import best_direct, direct_measures
from numpy.typing import NDArray
from octofold_client import Client
from octofold_client.evaluation_run import PARALLEL
from octofold_client.loadtest.boards import played_boards
from octofold_client.loadtest.forms import Form, Task
from octofold_client.loadtest.histogram import Histogram, merged
from octofold_client.loadtest.loads import Closed
from octofold_client.loadtest.workers import load_windows
from octofold_client.rpc.local_server import LocalServer

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from harness import interleave, medians, new_parser, newest_version, report

LARGEST_EXPONENT = 15
RAMP_SECONDS = 0.2
SAMPLE_SECONDS = 10.0
LOADS = {
    "4 callers of 64 boards": (4, "packed:64"),
    "64 callers of 1 board": (64, "unary"),
    "64 callers on one stream": (64, "stream:1"),
    "1 caller of 1 board": (1, "unary"),
}
STREAMS = "64 streams of 1 board a message"


class Measures:
    """The measures by name, and the latencies that they recorded.

    Args:
        seconds: length of one measurement in one round.
    """

    def __init__(self, seconds: float) -> None:
        self.rates: dict[str, Callable[[], float]] = {}
        self.latencies: dict[str, list[Histogram]] = {}
        self._seconds = seconds

    def add(self, name: str, load: Callable[[Histogram], float]) -> None:
        """Add a load that returns boards per second and records the latency of its calls in microseconds."""
        self.latencies[name] = []

        def measure() -> float:
            self.latencies[name].append(Histogram())
            return load(self.latencies[name][-1])

        self.rates[name] = measure

    def add_workers(self, name: str, task: Task, callers: int) -> None:
        """Add a load by `callers` callers in another process, as in a load test."""
        self.latencies[name] = []

        def measure() -> float:
            with closing(load_windows(task, Closed(callers), RAMP_SECONDS, self._seconds)) as windows:
                next(windows)
                counts = next(windows)
            self.latencies[name].append(counts.latencies)
            return counts.boards / counts.seconds

        self.rates[name] = measure

    def percentiles(self) -> dict[str, dict[str, float]]:
        """Return p50 and p99 of every load, in milliseconds."""
        return {
            name: {f"p{q}": round((merged(rounds).percentile(q) or 0) / 1e3, 2) for q in (50, 99)}
            for name, rounds in self.latencies.items()
        }


def main() -> None:
    """Run the benchmark."""
    options = _options()
    boards = played_boards(LARGEST_EXPONENT)
    arguments = ("--default-model", options.model, "--precision", options.precision)
    with ExitStack() as stack:
        server = stack.enter_context(LocalServer(options.models, arguments))
        assert server.pid is not None
        process = psutil.Process(server.pid)
        measures = Measures(options.seconds)

        def task(target: str, form: str) -> Task:
            return Task(target, options.model, "", Form.parse(form), boards)

        if options.memory_minutes:
            for name, (callers, form) in LOADS.items():
                measures.add_workers(name, task(server.target, form), callers)
            _watch_memory(process, list(measures.rates.values()), options.memory_minutes * 60)
            return

        for name, (callers, form) in LOADS.items():
            measures.add_workers(f"served, {name}", task(server.target, form), callers)
        client = stack.enter_context(Client(server.target))
        batch_seconds: list[float] = []
        _add_clients(measures, client, server.target, boards, options.seconds, batch_seconds)
        paces: dict[int, list[client_load.Pace]] = {512: [], PARALLEL: []}

        def evaluation(games: int) -> float:
            pace = client_load.evaluation(server.target, process.pid, games, 2 * options.seconds)
            paces[games].append(pace)
            return pace.boards_per_second

        version = newest_version(options.models, options.model)
        rates: dict[str, Callable[[], float]] = {
            **direct_measures(version, boards, options.seconds),
            **measures.rates,
            **{f"evaluate, {games:,} games": partial(evaluation, games) for games in paces},
        }
        found = medians(interleave(rates, options.rounds))
    _report(options, found, measures.percentiles(), batch_seconds, paces[PARALLEL])


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__, model="cnn5", seconds=2.0, rounds=5)
    parser.add_argument(
        "--precision", default="int8", choices=("fp32", "int8"), help="precision (default: %(default)s)"
    )
    parser.add_argument(
        "--memory-minutes",
        type=float,
        default=0.0,
        help="only record the server's resident size under full load for this many minutes",
    )
    return parser.parse_args()


def _add_clients(
    measures: Measures,
    client: Client,
    served: str,
    boards: NDArray[np.uint8],
    seconds: float,
    batch_seconds: list[float],
) -> None:
    """Add the loads of our own clients.

    Args:
        measures: collects the loads.
        client: a client of the server.
        served: address of the server.
        boards: `[N, 16]`, sent in turn.
        seconds: length of one measurement.
        batch_seconds: collects the inference times of batches beside a large call.
    """
    measures.add(
        f"served, {STREAMS}",
        lambda times: asyncio.run(client_load.streams(served, 64, boards, seconds, times)),
    )
    measures.add("Client, 64 threads of 1 board", partial(client_load.threads, client, 64, boards, seconds))
    measures.add(
        "AsyncClient, 64 tasks of 1 board",
        lambda times: asyncio.run(client_load.tasks(served, 64, boards, seconds, times)),
    )
    measures.add(
        "served, 1 caller of 1 board beside one of 60,000",
        lambda times: client_load.beside_bulk(served, boards, seconds, times, batch_seconds),
    )


def _report(
    options: argparse.Namespace,
    found: dict[str, float],
    percentiles: dict[str, dict[str, float]],
    batch_seconds: list[float],
    paces: list[client_load.Pace],
) -> None:
    direct = best_direct(found, options.precision)
    rows: list[tuple[str, ...]] = [
        (
            name,
            f"{value:,.0f}",
            f"{value / direct:.2f}",
            "{p50} / {p99}".format(**percentiles[name]) if name in percentiles else "",
        )
        for name, value in found.items()
    ]
    beside = percentiles["served, 1 caller of 1 board beside one of 60,000"]
    in_batches = beside["p99"] / 1e3 / float(np.median(batch_seconds))
    share = float(np.median([pace.client_share for pace in paces]))
    rows += [
        ("p99 beside 60,000 boards, in batch times", f"{in_batches:.1f}", "", ""),
        (f"evaluate, {PARALLEL:,} games: the client's share of the CPU time", f"{share:.1%}", "", ""),
    ]
    report(
        f"serving {options.model}",
        ["what", "boards/s", "of best direct", "p50 / p99, ms"],
        rows,
        precision=options.precision,
        boards_per_second=found,
        direct=direct,
        int8_over_fp32=_int8_over_fp32(found),
        batch_times_beside_bulk=in_batches,
        latency_ms=percentiles,
        evaluate={"client_share": share},
    )


def _int8_over_fp32(found: Mapping[str, float]) -> float | None:
    """Return how many times faster int8 is than fp32, or None without int8."""
    int8 = best_direct(found, "int8")
    return int8 / best_direct(found, "fp32") if int8 else None


def _watch_memory(process: psutil.Process, loads: list[Callable[[], Any]], seconds: float) -> None:
    """Print the resident size of a server while the loads take turns."""
    samples: list[float] = []
    start = time.monotonic()
    while (now := time.monotonic() - start) < seconds:
        while time.monotonic() - start < now + SAMPLE_SECONDS:
            for load in loads:
                load()
        samples.append(process.memory_info().rss / 2**20)
        print(f"{time.monotonic() - start:6.0f} s  {samples[-1]:7.1f} MB", flush=True)
    rows = [
        ("first sample", f"{samples[0]:.1f}"),
        ("last sample", f"{samples[-1]:.1f}"),
        ("largest sample", f"{max(samples):.1f}"),
    ]
    report("resident size under full load", ["when", "MB"], rows, resident_mb=samples)


if __name__ == "__main__":
    main()
