"""A soak: every kind of call at the same time, what is done to the server meanwhile, and its figures.

The figures are taken while nobody calls, before and after: what has grown in between has leaked. The long
soak and the small one in the tests share this. Knows nothing about how the server is started.
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
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from soak_calls import CALL_SECONDS, SPARE, Caller, Kind, Target, WrongAnswer, new_channel

__all__ = [
    "MEMORY_IS_RETURNED",
    "Figures",
    "Load",
    "Server",
    "Tally",
    "Trouble",
    "problems",
    "quiet_figures",
    "settled_figures",
]

JOIN_SECONDS = 2 * CALL_SECONDS
SETTLE_SECONDS = 90.0
"""For what ends by itself when nobody calls any more, such as connections that were cut."""
PAUSE_SECONDS = 0.25
MEMORY_IS_RETURNED = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "MALLOC_MMAP_THRESHOLD_": "131072",
}
"""Environment of a server whose memory is measured: glibc else keeps what was freed, by turns 1 or 150 MB."""
MORE_MB = 16.0
"""Of one process, that fragments and caches may take. A leak of a few kB a call would be more."""
MORE_THREADS = 16
"""Of one process: pools grow up to their bounds when they are used."""
QUIET_SECONDS = 3.0
"""For figures that do not fall any more. Models that were unloaded take a moment to be freed."""
FLICKER = 1.0
"""By so much figures fall and rise again by themselves: MB, threads."""
MOST_TOLD = 5
ROUNDING = 1 - 1e-9
"""Sums of the same times may differ so much, by the order in which they are added."""
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Figures:
    """What a server holds at one moment; of several processes, the sum. Counts are those of one model."""

    memory_mb: float
    threads: int
    descriptors: int
    waiting_calls: int
    waiting_boards: int
    open_calls: int
    answered: int
    processes: int


@dataclass
class Tally:
    """What the calls came to."""

    begun: Counter[str] = field(default_factory=Counter)
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    unexpected: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    fallen: list[str] = field(default_factory=list)
    "counters of the metrics that became smaller"
    done: Counter[str] = field(default_factory=Counter)
    "what was done to the server"
    answered: int = 0
    perhaps: int = 0

    @property
    def calls(self) -> int:
        """How many calls have begun."""
        return sum(self.begun.values())

    @property
    def without_end(self) -> int:
        """Calls that came to no status."""
        return self.calls - sum(self.ended.values())


@dataclass(frozen=True)
class Server:
    """A running server: its first process, where it is asked, and its model repository."""

    pid: int
    target: Target
    models: Path

    def processes(self) -> list[psutil.Process]:
        """Those that serve: the first one, or with --processes its children."""
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
        """Memory, threads, descriptors, queue and counts of the server as they are now."""
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
        )


class Load:
    """Callers of every kind, and trouble, each on a thread, from `start` to `stop`.

    Args:
        server: that is called.
        kinds: of calls.
        troubles: what is done to the server, in turn.
        callers: of each kind.
        seed: of their random choices.
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
        """Let every call end, and return the tally; a call that does not end is left behind."""
        self._stopping.set()
        give_up = time.monotonic() + JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, give_up - time.monotonic()))

    def progress(self) -> str:
        """How far it is, in a line."""
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
            with suppress(OSError, http.client.HTTPException):  # whom we asked has just been killed
                now = self._server.metrics()
                fallen = [key for key in now if _grows(key[0]) and now[key] < before.get(key, 0) * ROUNDING]
                with self._lock:
                    self.tally.fallen += [f"{name}{{{labels}}}" for name, labels in fallen]
                before.update(now)


AWAY = frozenset(
    {"UNAVAILABLE", "BrokenPipeError", "ConnectionResetError", "ConnectionRefusedError", "RemoteDisconnected"}
)
"""How calls end whose process is killed."""


@dataclass(frozen=True)
class Trouble:
    """Something that is done to a server again and again."""

    name: str
    make: Callable[[Server], None]
    every_seconds: float
    kills: bool = False

    @staticmethod
    def common(every_seconds: float) -> list[Trouble]:
        """What a server has to bear without failing a call: its models change."""
        return [
            Trouble("reload", _reload, every_seconds),
            Trouble("unload", _unload, every_seconds),
            Trouble("load", _load, every_seconds),
        ]

    @staticmethod
    def killing(every_seconds: float) -> Trouble:
        """For a server of several processes: one of them is killed."""
        return Trouble("kill", _kill, every_seconds, kills=True)


def _reload(server: Server) -> None:
    """The newest version's card is written anew, so that it is loaded again beside what serves."""
    newest = max((server.models / server.target.model).glob("[0-9]*"), key=lambda folder: int(folder.name))
    card = newest / "card.json"
    content = json.loads(card.read_text(encoding="utf-8"))
    content["reloads"] = content.get("reloads", 0) + 1
    beside = card.with_suffix(".new")
    beside.write_text(json.dumps(content), encoding="utf-8")
    beside.replace(card)
    os.kill(server.pid, signal.SIGHUP)


def _unload(server: Server) -> None:
    _ask(server, "RepositoryModelUnload", oip.RepositoryModelUnloadRequest(model_name=SPARE))


def _load(server: Server) -> None:
    _ask(server, "RepositoryModelLoad", oip.RepositoryModelLoadRequest(model_name=SPARE))


def _ask(server: Server, method: str, request: object) -> None:
    with (
        closing(new_channel(server.target)) as channel,
        suppress(grpc.RpcError),
    ):  # of a process that is killed
        getattr(GRPCInferenceServiceStub(channel), method)(request, timeout=CALL_SECONDS)


def _kill(server: Server) -> None:
    """Not while another is still starting: somebody is to be there."""
    processes = server.processes()
    if len(processes) > 1:
        with suppress(psutil.NoSuchProcess):
            max(processes, key=psutil.Process.create_time).kill()


def quiet_figures(server: Server) -> Figures:
    """The figures of a server that nobody calls any more, once they have stopped to fall."""
    lowest, since = server.figures(), time.monotonic()
    give_up = since + SETTLE_SECONDS
    while time.monotonic() < min(since + QUIET_SECONDS, give_up):
        time.sleep(PAUSE_SECONDS)
        now = server.figures()
        if any(value < getattr(lowest, name) - FLICKER for name, value in asdict(now).items()):
            lowest, since = now, time.monotonic()
    return lowest


def settled_figures(server: Server, before: Figures) -> Figures:
    """The figures of a server that nobody calls any more, once it holds no more than before.

    It may never be so: then they are those after `SETTLE_SECONDS`.
    """
    give_up = time.monotonic() + SETTLE_SECONDS
    while True:
        with suppress(OSError, http.client.HTTPException, psutil.NoSuchProcess):
            figures = server.figures()
            if not left_behind(before, figures) or time.monotonic() > give_up:
                return figures
        time.sleep(PAUSE_SECONDS)


def left_behind(before: Figures, now: Figures) -> list[str]:
    """What a server still holds that it did not before, although nobody calls any more."""
    bounds = {
        "memory_mb": before.memory_mb + MORE_MB * before.processes,
        "threads": before.threads + MORE_THREADS * before.processes,
        "descriptors": before.descriptors,
        "waiting_calls": 0,
        "waiting_boards": 0,
        "open_calls": 0,
        "processes": before.processes,
    }
    held = {name: getattr(now, name) for name in bounds}
    problems = [
        f"{name} is {held[name]}, more than {bound}" for name, bound in bounds.items() if held[name] > bound
    ]
    if now.processes < before.processes:
        problems.append(f"{before.processes - now.processes} processes are missing")
    return problems


def problems(tally: Tally, before: Figures, after: Figures) -> list[str]:
    """Everything that a soak has found, a sentence each."""
    found = left_behind(before, after)
    found += [f"wrong answer: {text}" for text in tally.wrong[:MOST_TOLD]]
    found += [f"{count} times, {kind} ended with {code}" for (kind, code), count in tally.unexpected.items()]
    found += [f"a counter fell: {name}" for name in tally.fallen[:MOST_TOLD]]
    if tally.without_end:
        found.append(f"{tally.without_end} calls have not ended")
    counted = after.answered - before.answered
    most = tally.answered + tally.perhaps
    # What a process counts after its last page dies with it.
    if not tally.done["kill"] and not tally.answered <= counted <= most:
        found.append(f"the server counts {counted} answers; callers had {tally.answered} to {most}")
    return found


def _grows(name: str) -> bool:
    ends = ("_total", "_count", "_sum", "_bucket", "_us", "_success", "_failure")
    return name.endswith(ends) and name != "nv_inference_pending_request_count"


def _serves(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
