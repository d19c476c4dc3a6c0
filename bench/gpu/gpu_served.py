"""Measures a model through a server: boards per second, and the latency of a single board.

Every function runs in its own process, so its arguments must be picklable.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpu_direct import Figures
from octofold_client.loadtest.boards import played_boards
from octofold_client.loadtest.forms import Form, Task
from octofold_client.loadtest.loads import Closed, Counts
from octofold_client.loadtest.workers import load_windows
from octofold_client.rpc import local_server
from octofold_game.contract.model import Precision
from octofold_game.system.processors import usable_cores
from octofold_server.models.repository import VersionFolder

local_server.START_TIMEOUT_SECONDS = 240.0  # a GPU may start slowly
RAMP_SECONDS = 0.5
LONGEST_SECONDS = 30.0
"""Time limit until every caller of a load has an answer."""
LARGEST_EXPONENT = 15


@dataclass(frozen=True)
class Load:
    """A load: callers that each send the next call as soon as they have an answer."""

    form: str
    callers: int

    @classmethod
    def parse(cls, text: str) -> Load:
        """Parse FORM/CALLERS, such as packed:1024/16. Raises `ValueError` for any other text."""
        form, _, callers = text.rpartition("/")
        return cls(str(Form.parse(form)), int(callers))

    def __str__(self) -> str:
        return f"{self.form}/{self.callers}"


@dataclass(frozen=True)
class Service:
    """A server of one model version."""

    version: VersionFolder
    precision: Precision
    device: str
    flags: tuple[str, ...] = ()
    """Further flags of octofold-serve."""


def throughput(service: Service, loads: Sequence[Load], seconds: float) -> Figures:
    """Return boards per second, and p50 and p99 of a call in milliseconds, for each load.

    Raises:
        RuntimeError: the server did not start, or calls failed.
    """
    found: Figures = {}
    with running(service) as target:
        for load in loads:
            counts = measured(target, service, load, seconds)
            if counts.errors:
                raise RuntimeError(f"{load}: {counts.errors.total()} calls failed: {counts.last_error}")
            found[f"{load}: boards/s"] = counts.boards / counts.seconds
            for percent in (50, 99):
                found[f"{load}: p{percent} ms"] = (counts.latencies.percentile(percent) or 0) / 1e3
    return found


def measured(target: str, service: Service, load: Load, seconds: float) -> Counts:
    """Return the counts of one load after a ramp, over at least `seconds`, until each caller has an answer.

    Half of the cores generate the load, at most eight.
    """
    boards = played_boards(LARGEST_EXPONENT, max(4096, Form.parse(load.form).boards))
    task = Task(target, service.version.name, "", Form.parse(load.form), boards)
    makers = max(1, min(8, usable_cores() // 2, load.callers))
    end = time.monotonic() + RAMP_SECONDS + LONGEST_SECONDS
    with closing(load_windows(task, Closed(load.callers), RAMP_SECONDS, seconds, makers)) as windows:
        next(windows)
        counts = next(windows)
        while counts.answered < load.callers and not counts.errors and time.monotonic() < end:
            counts = Counts.of_windows([counts, next(windows)])
        return counts


@contextmanager
def running(service: Service) -> Iterator[str]:
    """Run a server of one version and yield its address.

    Raises:
        ServerDied: the server was not ready in time; the message has the last lines of its log.
    """
    version = service.version
    with tempfile.TemporaryDirectory(prefix="octofold-gpu-") as folder:
        models = Path(folder)
        shutil.copytree(version.path, models / version.name / str(version.version))
        flags = ("--drain", "5", "--device", service.device, "--precision", service.precision)
        with local_server.LocalServer(models, (*flags, *service.flags)) as server:
            yield server.target
