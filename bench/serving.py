"""Boards a second of an exported graph: in onnxruntime directly, and served over gRPC.

    python bench/serving.py --model cnn5

Direct is onnxruntime in a loop on the same file, in each of two layouts (one session on all cores, or one
session without threads of its own that every core calls) and several batch sizes; its best is what the served
figures are compared with. Load comes from processes of `octofold loadtest`, on the same cores. All measures
take turns.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import onnxruntime
import psutil
from harness import interleave, medians, report
from numpy.typing import NDArray
from octofold_client.loadtest.boards import played_boards
from octofold_client.loadtest.forms import Form
from octofold_client.loadtest.histogram import Histogram, merged
from octofold_client.loadtest.loads import Closed
from octofold_client.loadtest.workers import Task, Workers
from octofold_client.local_server import LocalServer

BATCHES = (1, 8, 16, 64)
LARGEST_EXPONENT = 15
RAMP_SECONDS = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--model", default="cnn5")
    parser.add_argument("--precision", default="int8", choices=("fp32", "int8"))
    parser.add_argument("--seconds", type=float, default=2.0, help="of one measure in one round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    version = max(
        (options.models / options.model).glob("*/card.json"), key=lambda card: int(card.parent.name)
    )
    files = {"fp32": version.with_name("model.onnx"), "int8": version.with_name("model.int8.onnx")}
    boards = played_boards(LARGEST_EXPONENT)
    cores = len(os.sched_getaffinity(0))
    arguments = ("--default-model", options.model, "--precision", options.precision)
    with LocalServer(options.models, arguments) as server, ExitStack() as processes:
        latencies: dict[str, list[Histogram]] = {}

        def served(name: str, callers: int, form: str) -> Callable[[], float]:
            task = Task(server.target, options.model, "", Form.parse(form), boards, LARGEST_EXPONENT)
            workers = processes.enter_context(Workers(task))
            latencies[name] = []

            def measure() -> float:
                with closing(workers.windows(Closed(callers), RAMP_SECONDS, options.seconds)) as windows:
                    next(windows)
                    counts = next(windows)
                latencies[name].append(counts.latencies)
                return counts.boards / counts.seconds

            return measure

        sessions = {
            (precision, threads): _session(file, threads)
            for precision, file in files.items()
            for threads in sorted({1, cores})
        }
        measures = {
            f"direct {precision}, {'one lane a core' if threads == 1 else 'all cores'}, batch {batch}": (
                lambda session=session, lanes=cores if threads == 1 else 1, batch=batch: _direct(
                    session, lanes, boards, batch, options.seconds
                )
            )
            for (precision, threads), session in sessions.items()
            for batch in BATCHES
        }
        measures |= {
            "served, 4 callers of 64 boards": served("4 x 64", 4, "packed:64"),
            "served, 64 callers of 1 board": served("64 x 1", 64, "unary"),
            "served, 1 caller of 1 board": served("1 x 1", 1, "unary"),
        }
        found = medians(interleave(measures, options.rounds))
        megabytes = psutil.Process(server.pid).memory_info().rss / 2**20

    direct = max(value for name, value in found.items() if name.startswith(f"direct {options.precision}"))
    rows = [(name, f"{value:,.0f}", f"{value / direct:.2f}") for name, value in found.items()]
    percentiles = {
        name: {f"p{q}": round((merged(rounds).percentile(q) or 0) / 1e3, 2) for q in (50, 99)}
        for name, rounds in latencies.items()
    }
    for name, values in percentiles.items():
        rows.append((f"latency {name}: p50 / p99, ms", f"{values['p50']} / {values['p99']}", ""))
    rows.append(("resident size of the server, MB", f"{megabytes:.0f}", ""))
    report(
        f"serving {options.model}",
        ["what", "boards/s", "of best direct"],
        rows,
        precision=options.precision,
        cores=cores,
        boards_per_second=found,
        direct=direct,
        int8_over_fp32=_ratio(found),
        latency_ms=percentiles,
        resident_mb=round(megabytes),
    )


def _ratio(found: dict[str, float]) -> float:
    """The best int8 over the best fp32."""
    best = {
        precision: max(value for name, value in found.items() if name.startswith(f"direct {precision}"))
        for precision in ("int8", "fp32")
    }
    return best["int8"] / best["fp32"]


def _session(file: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0" if threads == 1 else "1")
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def _direct(
    session: onnxruntime.InferenceSession, lanes: int, boards: NDArray[np.uint8], batch: int, seconds: float
) -> float:
    done = [0] * lanes
    session.run(None, {"boards": boards[:batch]})
    end = time.perf_counter() + seconds

    def run(lane: int) -> None:
        while time.perf_counter() < end:
            start = done[lane] % (len(boards) - batch)
            session.run(None, {"boards": boards[start : start + batch]})
            done[lane] += batch

    start = time.perf_counter()
    threads = [threading.Thread(target=run, args=(lane,)) for lane in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
