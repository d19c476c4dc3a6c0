"""The load of a soak: every kind of call at the same time, disturbances of the server, and its figures.

The figures are those of the idle server, before and after the load. Whatever grew in between has leaked.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import grpc
import psutil
from octofold_game.contract.model import CARD_FILE
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from soak_calls import CALL_SECONDS, SPARE, Caller, Kind, Target, WrongAnswer, new_channel

JOIN_SECONDS = 2 * CALL_SECONDS
SETTLE_SECONDS = 90.0
"""Time limit for an idle server to release what it holds, such as reset connections."""
PAUSE_SECONDS = 0.25
MEMORY_IS_RETURNED = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "MALLOC_MMAP_THRESHOLD_": "131072",
}
"""Environment of a server whose memory is measured. Without it, glibc keeps 1 to 150 MB of freed memory."""
MORE_MB = 16.0
"""Allowed growth of one process by fragmentation and caches. A leak of a few kB per call exceeds it."""
MORE_THREADS = 16
"""Allowed growth of one process: pools grow to their bounds when they are used."""
QUIET_SECONDS = 3.0
"""How long figures must not fall to count as settled. Freeing an unloaded model takes a moment."""
FLICKER = 1.0
"""Fluctuation of figures without any cause, in MB or threads."""
MOST_REPORTED = 5
ROUNDING = 1 - 1e-9
"""Sums of the same times may differ by this factor, because the order of additions differs."""
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Figures:
    """The resources that a server uses, summed over its processes, and the counts of one model."""

    memory_mb: float
    threads: int
    descriptors: int
    waiting_calls: int
    waiting_boards: int
    open_calls: int
    answered: int
    processes: int
    ready_versions: int


@dataclass
class Tally:
    """The outcome of all calls.

    Attributes:
        begun: calls by kind.
        ended: calls by kind and final status.
        unexpected: calls that ended with a status that is not allowed, by kind and status.
        wrong: descriptions of wrong answers.
        fallen: metrics whose counter became smaller.
        done: disturbances by name.
        answered: number of answered calls for moves.
        perhaps: number of calls for moves that the server may have answered after the caller left.
    """

    begun: Counter[str] = field(default_factory=Counter)
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    unexpected: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    fallen: list[str] = field(default_factory=list)

    done: Counter[str] = field(default_factory=Counter)

    answered: int = 0
    perhaps: int = 0

    @property
    def calls(self) -> int:
        """Number of calls that have begun."""
        return sum(self.begun.values())

    @property
    def without_end(self) -> int:
        """Number of calls that have not ended."""
        return self.calls - sum(self.ended.values())


@dataclass(frozen=True)
class Server:
    """A running server: its first process, its addresses and its model repository."""

    pid: int
    target: Target
    models: Path

    def processes(self) -> list[psutil.Process]:
        """The serving processes: the first one, or its children with `--processes`."""
        first = psutil.Process(self.pid)
        children = [child for child in first.children() if _serves(child)]
        return children or [first]

    def metrics(self) -> dict[tuple[str, str], float]:
        """The samples of /metrics by name and labels."""
        connection = http.client.HTTPConnection("127.0.0.1", self.target.rest_port, timeout=CALL_SECONDS)
        with closing(connection):
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
        return {(name, labels): float(value) for name, labels, value in SAMPLE.findall(page)}

    def figures(self) -> Figures:
        """The current figures of the server."""
        metrics = self.metrics()
        ours = f'model="{self.target.model}"'

        def total(name: str, label: str = "") -> int:
            return int(sum(value for (n, labels), value in metrics.items() if n == name and label in labels))

        processes = self.processes()
        return Figures(
            memory_mb=round(sum(process.memory_info().rss for process in processes) / 1e6, 1),
            threads=sum(process.num_threads() for process in processes),
            descriptors=sum(process.num_fds() for process in processes),
            waiting_calls=total("nv_inference_pending_request_count"),
            waiting_boards=total("octofold_waiting_boards"),
            open_calls=total("octofold_open_calls"),
            answered=total("nv_inference_request_success", ours),
            processes=len(processes),
            ready_versions=total("octofold_model_info", 'state="READY"'),
        )


class Load:
    """Threads that call the server and disturb it, from `start` to `stop`.

    Args:
        server: server to call.
        kinds: kinds of calls to make.
        troubles: disturbances, which take turns.
        callers: threads for each kind of call.
        seed: seed of all random choices.
    """

    def __init__(
        self, server: Server, kinds: Sequence[Kind], troubles: Sequence[Trouble], callers: int, seed: int
    ) -> None:
        self.tally = Tally()
        self._server = server
        self._troubles = troubles
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # guards the tally
        self._may_be_away = any(trouble.kills for trouble in troubles)
        self._threads = [
            threading.Thread(target=self._call, args=(kind, seed * 1000 + number), daemon=True)
            for number, kind in enumerate(kind for kind in kinds for _ in range(callers))
        ]
        self._threads += [
            threading.Thread(target=self._make_trouble, daemon=True),
            threading.Thread(target=self._watch_counters, daemon=True),
        ]

    def start(self) -> None:
        """Start the callers."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Wait until every call has ended, for at most `JOIN_SECONDS`."""
        self._stopping.set()
        give_up = time.monotonic() + JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, give_up - time.monotonic()))

    def progress(self) -> str:
        """The progress in one line."""
        with self._lock:
            done = ", ".join(f"{count} {name}s" for name, count in self.tally.done.items())
            bad = len(self.tally.wrong) + self.tally.unexpected.total() + len(self.tally.fallen)
            return f"{self.tally.calls:,} calls, {bad} bad ends; {done}"

    def _call(self, kind: Kind, seed: int) -> None:
        with closing(Caller(self._server.target, seed)) as caller:
            while not self._stopping.is_set():
                with self._lock:
                    self.tally.begun[kind.name] += 1
                status, wrong = self._status_of(kind, caller)
                self._end(kind, status, wrong)
        with self._lock:
            self.tally.answered += caller.answered
            self.tally.perhaps += caller.perhaps

    def _status_of(self, kind: Kind, caller: Caller) -> tuple[str, str]:
        try:
            return kind.call(caller), ""
        except grpc.RpcError as error:
            return error.code().name, ""
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__, ""
        except WrongAnswer as error:
            return "WRONG", f"{kind.name}: {error}"
        except Exception as error:  # an answer that cannot even be read
            return "WRONG", f"{kind.name}: {error!r}"

    def _end(self, kind: Kind, status: str, wrong: str) -> None:
        with self._lock:
            self.tally.ended[kind.name, status] += 1
            if wrong:
                self.tally.wrong.append(wrong)
            elif status not in kind.allowed and not (self._may_be_away and status in AWAY):
                self.tally.unexpected[kind.name, status] += 1
        if status in AWAY and not self._stopping.is_set():
            time.sleep(PAUSE_SECONDS)

    def _make_trouble(self) -> None:
        while self._troubles:
            for trouble in self._troubles:
                if self._stopping.wait(trouble.every_seconds):
                    return
                trouble.make(self._server)
                with self._lock:
                    self.tally.done[trouble.name] += 1

    def _watch_counters(self) -> None:
        before: dict[tuple[str, str], float] = {}
        while not self._stopping.wait(2 * PAUSE_SECONDS):
            with suppress(OSError, http.client.HTTPException):  # the process may have been killed
                now = self._server.metrics()
                fallen = [key for key in now if _grows(key[0]) and now[key] < before.get(key, 0) * ROUNDING]
                with self._lock:
                    self.tally.fallen += [f"{name}{{{labels}}}" for name, labels in fallen]
                before.update(now)


AWAY = frozenset(
    {"UNAVAILABLE", "BrokenPipeError", "ConnectionResetError", "ConnectionRefusedError", "RemoteDisconnected"}
)
"""Final statuses of calls whose process was killed."""


@dataclass(frozen=True)
class Trouble:
    """A disturbance that a server suffers at intervals."""

    name: str
    make: Callable[[Server], None]
    every_seconds: float
    kills: bool = False

    @staticmethod
    def common(every_seconds: float) -> list[Trouble]:
        """Changes of models, which must not fail any call."""
        return [
            Trouble("reload", _reload, every_seconds),
            Trouble("unload", _unload, every_seconds),
            Trouble("load", load_spare, every_seconds),
        ]

    @staticmethod
    def killing(every_seconds: float) -> Trouble:
        """Kills one of several processes."""
        return Trouble("kill", _kill, every_seconds, kills=True)


def _reload(server: Server) -> None:
    """Rewrite the newest version's card, so that the server loads the version again while it serves."""
    newest = max((server.models / server.target.model).glob("[0-9]*"), key=lambda folder: int(folder.name))
    card = newest / CARD_FILE
    content = json.loads(card.read_text(encoding="utf-8"))
    content["reloads"] = content.get("reloads", 0) + 1
    beside = card.with_suffix(".new")
    beside.write_text(json.dumps(content), encoding="utf-8")
    beside.replace(card)
    os.kill(server.pid, signal.SIGHUP)


def _unload(server: Server) -> None:
    _ask(server, "RepositoryModelUnload", oip.RepositoryModelUnloadRequest(model_name=SPARE))


def load_spare(server: Server) -> None:
    """Load the spare model, unless it is loaded: it takes as much memory as a leak may."""
    _ask(server, "RepositoryModelLoad", oip.RepositoryModelLoadRequest(model_name=SPARE))


def _ask(server: Server, method: str, request: object) -> None:
    with closing(new_channel(server.target)) as channel, suppress(grpc.RpcError):  # it may have been killed
        getattr(GRPCInferenceServiceStub(channel), method)(request, timeout=CALL_SECONDS)


def _kill(server: Server) -> None:
    """Kill the youngest process, unless it is the only one."""
    processes = server.processes()
    if len(processes) > 1:
        with suppress(psutil.NoSuchProcess):
            max(processes, key=psutil.Process.create_time).kill()


def quiet_figures(server: Server) -> Figures:
    """The figures of an idle server, once they have stopped falling."""
    lowest, since = server.figures(), time.monotonic()
    give_up = since + SETTLE_SECONDS
    while time.monotonic() < min(since + QUIET_SECONDS, give_up):
        time.sleep(PAUSE_SECONDS)
        now = server.figures()
        if any(value < getattr(lowest, name) - FLICKER for name, value in asdict(now).items()):
            lowest, since = now, time.monotonic()
    return lowest


def settled_figures(server: Server, before: Figures) -> Figures:
    """The figures of an idle server, once they are no larger than before, or after `SETTLE_SECONDS`."""
    give_up = time.monotonic() + SETTLE_SECONDS
    while True:
        with suppress(OSError, http.client.HTTPException, psutil.NoSuchProcess):
            figures = server.figures()
            if not left_behind(before, figures) or time.monotonic() > give_up:
                return figures
        time.sleep(PAUSE_SECONDS)


def left_behind(before: Figures, now: Figures) -> list[str]:
    """The figures of an idle server that are larger than before, one sentence for each."""
    bounds = {
        "memory_mb": before.memory_mb + MORE_MB * before.processes,
        "threads": before.threads + MORE_THREADS * before.processes,
        "descriptors": before.descriptors,
        "waiting_calls": 0,
        "waiting_boards": 0,
        "open_calls": 0,
        "processes": before.processes,
        "ready_versions": before.ready_versions,
    }
    held = {name: getattr(now, name) for name in bounds}
    problems = [
        f"{name} is {held[name]}, more than {bound}" for name, bound in bounds.items() if held[name] > bound
    ]
    if now.processes < before.processes:
        problems.append(f"{before.processes - now.processes} processes are missing")
    return problems


def problems(tally: Tally, before: Figures, after: Figures) -> list[str]:
    """Everything that a soak found, one sentence for each problem."""
    found = left_behind(before, after)
    found += [f"wrong answer: {text}" for text in tally.wrong[:MOST_REPORTED]]
    found += [
        f"{count} calls of {kind} ended with {code}" for (kind, code), count in tally.unexpected.items()
    ]
    found += [f"a counter fell: {name}" for name in tally.fallen[:MOST_REPORTED]]
    if tally.without_end:
        found.append(f"{tally.without_end} calls have not ended")
    counted = after.answered - before.answered
    most = tally.answered + tally.perhaps
    # A killed process takes the counts since its last page with it.
    if not tally.done["kill"] and not tally.answered <= counted <= most:
        found.append(f"the server counted {counted} answers, its callers {tally.answered} to {most}")
    return found


def _grows(name: str) -> bool:
    ends = ("_total", "_count", "_sum", "_bucket", "_us", "_success", "_failure")
    return name.endswith(ends) and name != "nv_inference_pending_request_count"


def _serves(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
