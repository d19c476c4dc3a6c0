"""Boards a second of an exported graph: in onnxruntime directly, and served over gRPC.

    python bench/serving.py --model cnn5
    python bench/serving.py --model cnn5 --memory-minutes 10     # resident size under full load, every 10 s

Direct is onnxruntime in a loop on the same file, in each of two layouts (one session on all cores, or one
session without threads of its own that every core calls) and several batch sizes; its best is what the served
figures are compared with. The table is the same server with a backend that answers at once: single boards
cannot be answered faster than 1 / (1/direct + 1/table). Load comes from this process, on the same cores. All
measures take turns.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnxruntime
import psutil
from harness import interleave, medians, report
from load import Latencies, Load
from numpy.typing import NDArray
from octofold_client.local_server import LocalServer
from octofold_game.episodes import Episodes
from octofold_game.rules import legal_moves

BATCHES = (1, 8, 16, 64)
SAMPLE_SECONDS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--model", default="cnn5")
    parser.add_argument("--precision", default="int8", choices=("fp32", "int8"))
    parser.add_argument("--seconds", type=float, default=2.0, help="of one measure in one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--memory-minutes", type=float, default=0.0, help="watch the resident size under full load instead"
    )
    options = parser.parse_args()
    arguments = ("--default-model", options.model, "--precision", options.precision)
    boards = random_boards(4096)
    if options.memory_minutes:
        with LocalServer(options.models, arguments) as server:
            assert server.pid is not None
            _watch_memory(server.target, server.pid, boards, options.memory_minutes * 60)
        return

    cores = len(os.sched_getaffinity(0))
    latencies: dict[str, Latencies] = {}
    measures = _direct_measures(options, boards, cores)
    with (
        LocalServer(options.models, arguments) as server,
        _without_inference(options.models, options.model) as table_target,
    ):
        load = Load(server.target, boards, options.seconds)
        table = Load(table_target, boards, options.seconds)

        def add(name: str, run: Callable[..., float], *callers: int) -> None:
            found = latencies[name] = Latencies()
            measures[name] = lambda: run(*callers, found)

        add("served, 4 callers of 64 boards", load.packed, 4)
        add("served, 64 callers of 1 board", load.single, 64)
        add("table, 64 callers of 1 board", table.single, 64)
        add("served, 64 streams of 1 board a message", load.streams, 64)
        add("table, 64 streams of 1 board a message", table.streams, 64)
        add("served, 1 caller of 1 board", load.single, 1)
        add("table, 1 caller of 1 board", table.single, 1)
        add("served, 1 caller of 1 board beside one of 60,000", load.beside_bulk)
        found = medians(interleave(measures, options.rounds))
        megabytes = psutil.Process(server.pid).memory_info().rss / 2**20
        load.close()
        table.close()
    _report(options, found, latencies, megabytes, cores)


def _report(
    options: argparse.Namespace,
    found: dict[str, float],
    latencies: dict[str, Latencies],
    megabytes: float,
    cores: int,
) -> None:
    direct = max(value for name, value in found.items() if name.startswith(f"direct {options.precision}"))
    percentiles = {name: {f"p{q}": round(now.ms(q), 2) for q in (50, 99)} for name, now in latencies.items()}
    rows = [
        (
            name,
            f"{value:,.0f}",
            f"{value / direct:.2f}",
            "{p50} / {p99}".format(**percentiles[name]) if name in percentiles else "",
        )
        for name, value in found.items()
    ]
    ceilings = {
        load: 1 / (1 / direct + 1 / found[f"table, {load}"])
        for load in ("64 callers of 1 board", "64 streams of 1 board a message")
    }
    of_ceiling = {load: found[f"served, {load}"] / ceiling for load, ceiling in ceilings.items()}
    rows += [
        (f"1 / (1/direct + 1/table), {load}", f"{ceiling:,.0f}", f"served: {of_ceiling[load]:.2f} of it", "")
        for load, ceiling in ceilings.items()
    ]
    beside = latencies["served, 1 caller of 1 board beside one of 60,000"]
    batch_times = beside.ms(99) / 1e3 / float(np.median(beside.batch_seconds))
    rows.append(("p99 beside 60,000 boards, in batch times", f"{batch_times:.1f}", "", ""))
    rows.append(("resident size of the server, MB", f"{megabytes:.0f}", "", ""))
    report(
        f"serving {options.model}",
        ["what", "boards/s", "of best direct", "p50 / p99, ms"],
        rows,
        precision=options.precision,
        cores=cores,
        boards_per_second=found,
        direct=direct,
        int8_over_fp32=_ratio(found),
        of_ceiling=of_ceiling,
        batch_times_beside_bulk=batch_times,
        latency_ms=percentiles,
        resident_mb=round(megabytes),
    )


def _direct_measures(
    options: argparse.Namespace, boards: NDArray[np.uint8], cores: int
) -> dict[str, Callable[[], float]]:
    version = max(
        (options.models / options.model).glob("*/card.json"), key=lambda card: int(card.parent.name)
    )
    files = {"fp32": version.with_name("model.onnx"), "int8": version.with_name("model.int8.onnx")}
    sessions = {
        (precision, threads): _session(file, threads)
        for precision, file in files.items()
        for threads in sorted({1, cores})
    }
    return {
        f"direct {precision}, {'one lane a core' if threads == 1 else 'all cores'}, batch {batch}": (
            lambda session=session, lanes=cores if threads == 1 else 1, batch=batch: _direct(
                session, lanes, boards, batch, options.seconds
            )
        )
        for (precision, threads), session in sessions.items()
        for batch in BATCHES
    }


@contextmanager
def _without_inference(models: Path, model: str) -> Iterator[str]:
    """The address of a server that answers without inference."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder) / "port"
        program = Path(__file__).with_name("without_inference.py")
        command = [sys.executable, str(program), "--models", str(models), "--default-model", model]
        command += ["--port", "0", "--port-file", str(port_file), "--grace", "0", "--log-level", "warning"]
        process = subprocess.Popen(command)
        try:
            while not port_file.exists():
                if process.poll() is not None:
                    raise SystemExit("the server without inference has ended")
                time.sleep(0.05)
            yield f"127.0.0.1:{port_file.read_text().strip()}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _watch_memory(target: str, pid: int, boards: NDArray[np.uint8], seconds: float) -> None:
    """Print the resident size of a server under packed, unary and streamed load in turns."""
    load = Load(target, boards, SAMPLE_SECONDS / 3)
    process = psutil.Process(pid)
    samples: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        load.packed(4, Latencies())
        load.single(64, Latencies())
        load.streams(64, Latencies())
        samples.append(process.memory_info().rss / 2**20)
        print(f"{len(samples) * SAMPLE_SECONDS:6.0f} s  {samples[-1]:7.1f} MB", flush=True)
    load.close()
    rows = [
        ("first sample", f"{samples[0]:.1f}"),
        ("last", f"{samples[-1]:.1f}"),
        ("most", f"{max(samples):.1f}"),
    ]
    report("resident size under full load", ["when", "MB"], rows, resident_mb=samples)


def _ratio(found: dict[str, float]) -> float:
    """The best int8 over the best fp32."""
    best = {
        precision: max(value for name, value in found.items() if name.startswith(f"direct {precision}"))
        for precision in ("int8", "fp32")
    }
    return best["int8"] / best["fp32"]


def random_boards(count: int) -> NDArray[np.uint8]:
    """Boards `[count, 16]` of random games."""
    generator = np.random.default_rng(0)
    episodes = Episodes(0, range(64))
    seen: list[NDArray[np.uint8]] = []
    while sum(map(len, seen)) < count:
        seen.append(episodes.boards.copy())
        weights = legal_moves(episodes.boards) * generator.random((len(episodes.boards), 4))
        episodes.step(weights.argmax(axis=1).astype(np.int8))
    return np.concatenate(seen)[:count]


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
