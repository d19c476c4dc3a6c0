"""The processes of a server with --processes, and their combined answers."""

import re
import urllib.request
from collections.abc import Callable
from typing import Any

import grpc
import psutil


def on_a_connection_of_its_own(target: str, ask: Callable[[Any], Any]) -> Any:
    """Return what `ask` returns for a new channel. The kernel chooses a process for each connection."""
    with grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        return ask(channel)


def members(server: Any) -> list[psutil.Process]:
    """Return the serving processes that are alive."""
    return [child for child in psutil.Process(server.process.pid).children() if _serves(child)]


def _serves(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # it ended since it was listed
        return False


def metric(page: str, name: str, **labels: str) -> float:
    """Return the sum of a metric's samples on a page that have these labels."""
    samples = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", page, re.MULTILINE)
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(float(value) for found, value in samples if all(label in found for label in wanted))


def open_calls(server: Any) -> int:
    """Return how many calls a server with a REST port has accepted and not yet answered."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.rest_port}/metrics") as reply:
        page = reply.read().decode()
    assert "\noctofold_open_calls" in page
    return int(metric(page, "octofold_open_calls"))
