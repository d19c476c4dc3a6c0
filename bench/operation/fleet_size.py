"""How many servers a load needs, what a lost server costs, and how fast an autoscaler follows a step.

    python bench/operation/fleet_size.py --model swift
    python bench/operation/fleet_size.py --model cnn5 --cores 8

The time that a lane needs for a batch is measured here, as CPU time, so that a busy machine disturbs it
little. What a process needs to decode calls was measured before. Everything else is simulated by
`fleet_model.py`; docs/fleet.md says what that leaves out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from math import ceil
from pathlib import Path

import numpy as np
import onnxruntime
from fleet_model import STEP, Autoscaler, Course, Server, highest_rate, quantile_at, scaled
from numpy.typing import NDArray
from octofold_client.loadtest.boards import played_boards
from octofold_game.contract.graph import BOARDS
from octofold_game.contract.model import GRAPH_FILES

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import newest_version, report, show

BATCHES = (1, 2, 4, 8, 16, 32, 64)
MOST_BOARDS = 32
"""Boards of a batch: on a CPU, a server takes 8 to 32 of models that are not light."""
CALL_SIZES = (1, 16, 64)
DECODED = {1: 1 / 7_057, 64: 64 / 109_051}
"""Seconds of a process for a call, by its boards: 7,057 unary calls/s and 109,051 boards/s in calls of 64,
measured without inference (bench/NOTES.md, "Several processes")."""
STEPS = (1.5, 3.0, 6.0)
START_SECONDS = {"a node is free": 15.0, "a node must start": 120.0}
LIMIT_QUEUE = 131_072
"""Boards that may wait at a server: the default of --queue-capacity."""
AFTER, WATCHED = 60.0, 1200.0


def lane_seconds(file: Path, boards: NDArray[np.uint8], rounds: int = 15) -> dict[int, float]:
    """CPU seconds of one thread for a batch of each size: the median of the rounds, in turns."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    taken: dict[int, list[float]] = {batch: [] for batch in BATCHES}
    for _ in range(rounds):
        for batch in BATCHES:
            repeats = max(1, 64 // batch)
            started = time.thread_time()
            for number in range(repeats):
                session.run(None, {BOARDS.name: boards[number * batch : (number + 1) * batch]})
            taken[batch].append((time.thread_time() - started) / repeats)
    return {batch: float(np.median(times)) for batch, times in taken.items()}


def fitted(seconds: dict[int, float]) -> tuple[float, float]:
    """Seconds for each batch and for each board, with the least relative error."""
    sizes = np.array(list(seconds))
    times = np.array(list(seconds.values()))
    (fixed, each), *_ = np.linalg.lstsq(np.stack([1 / times, sizes / times], 1), np.ones(len(sizes)))
    return max(0.0, float(fixed)), float(each)


def decoding_seconds(size: int) -> float:
    """Seconds of the process for a call of `size` boards: the line through two sizes that were measured."""
    (one, most) = DECODED
    slope = (DECODED[most] - DECODED[one]) / (most - one)
    return DECODED[one] + slope * (size - one)


def server_of(fixed: float, each: float, cores: int, size: int) -> Server:
    """A process on this many cores, each of them a lane, for calls of `size` boards."""
    return Server(cores, fixed, size * each, max(1, MOST_BOARDS // size), decoding_seconds(size))


def step_of(server: Server, size: int, times: float, start: float, *, busy: bool) -> tuple[Course, int]:
    """A fleet of 20 servers, half busy, whose load becomes `times` as high; the servers that this needs."""
    before = 20 * server.capacity / 2
    rate: Callable[[float], float] = lambda now: before * (times if now >= AFTER else 1.0)  # noqa: E731
    scaler = Autoscaler(target=0.5 if busy else 0.05, fewest=20, most=400)
    course = scaled(
        rate,
        server,
        scaler,
        seconds=WATCHED,
        servers=20,
        start_seconds=start,
        longest_queue=LIMIT_QUEUE / size,
        busy=busy,
    )
    return course, ceil(before * times / server.capacity - 1e-9)


def servers_table(servers: dict[int, Server], rate: float, limit: float) -> list[tuple[object, ...]]:
    """Rows: boards in a call, boards/s of a server within the limit, servers, p99 after some are lost."""
    rows: list[tuple[object, ...]] = []
    for size, server in servers.items():
        most = highest_rate(server, limit)
        if not most:
            rows.append((size, "no rate keeps the limit", "", "", "", ""))
            continue
        needed = ceil(rate / size / most)
        share = rate / size / needed

        def after(lost: float, server: Server = server, share: float = share) -> str:
            more = share / (1 - lost)
            if more >= server.capacity:
                return "overloaded"
            return f"{1000 * quantile_at(server, more):.0f} ms"

        rows.append(
            (
                size,
                f"{most * size:,.0f}",
                f"{most / server.capacity:.0%}",
                f"{needed:,}",
                after(1 / needed),
                after(0.1),
            )
        )
    return rows


def steps_table(server: Server, size: int) -> list[tuple[object, ...]]:
    """Rows: what the autoscaler looks at, the step, and how long calls had to wait."""
    rows: list[tuple[object, ...]] = []
    for busy, told in ((False, "wait, 50 ms"), (True, "busy lanes, 50%")):
        for where, start in START_SECONDS.items():
            for times in STEPS:
                course, needed = step_of(server, size, times, start, busy=busy)
                late = np.flatnonzero(course.waits > 0.05)
                enough = np.flatnonzero(course.servers >= needed)
                rows.append(
                    (
                        told,
                        where,
                        f"x {times:g}",
                        f"{max(0.0, enough[0] * STEP - AFTER):.0f} s" if len(enough) else "never",
                        f"{late[-1] * STEP - AFTER:.0f} s" if len(late) else "0 s",
                        f"{course.waits.max():.1f} s",
                        f"{course.refused.sum() / course.calls[round(AFTER / STEP) :].sum():.1%}",
                        f"{course.servers.max()} of {needed}",
                    )
                )
    return rows


def main() -> None:
    """Measure, simulate, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--model", default="swift")
    parser.add_argument("--rate", type=float, default=1e6, help="boards per second of all callers")
    parser.add_argument("--limit-ms", type=float, default=50.0, help="limit of the p99 of a call")
    parser.add_argument("--cores", type=int, default=4, help="cores of a server, which is one process")
    options = parser.parse_args()
    file = newest_version(options.models, options.model) / GRAPH_FILES["int8"]
    boards = played_boards(15, 2048)
    seconds = lane_seconds(file, boards)
    fixed, each = fitted(seconds)
    servers = {size: server_of(fixed, each, options.cores, size) for size in CALL_SIZES}
    lanes = [(batch, f"{1e3 * took:.2f} ms", f"{batch / took:,.0f}") for batch, took in seconds.items()]
    show(f"measured: a lane of {options.model}", ("batch", "CPU time", "boards/s"), lanes)
    rows = servers_table(servers, options.rate, options.limit_ms / 1e3)
    columns = ("boards in a call", "boards/s of a server", "of capacity", "servers", "one lost", "10% lost")
    title = f"simulated: {options.rate:,.0f} boards/s, p99 {options.limit_ms:g} ms, {options.cores} cores"
    show(title, columns, rows)
    steps = steps_table(servers[16], 16)
    heads = ("looks at", "new servers", "load", "enough after", "slow until", "worst", "refused", "servers")
    title = "simulated: 20 servers, half busy, and a step of the load"
    report(title, heads, steps, seconds=seconds, fixed=fixed, each=each, sizes=rows, steps=steps)


if __name__ == "__main__":
    main()
