"""Detects that the gRPC thread has failed or is stuck; the process would otherwise look healthy."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from octofold_server.admission.refusals import Refusals
from octofold_server.grpc_transport.interface import Server
from octofold_server.system.connections import Connections, open_files

LOOK_SECONDS = 0.05
WARY_LOOK_SECONDS = 0.02
"""For `WARY_SECONDS` after a connection was ended: others may be of its kind, and each has its turn."""

WARY_SECONDS = 10.0

LOOKS_AT_NEW, WARY_LOOKS_AT_NEW = 4, 2
"""Looks without a heartbeat, and without a connection to end, after which new connections are to blame."""

FEW_SECONDS = 1.0
"""Time for which the kernel then keeps few of them."""

FEW_CONNECTIONS, MANY_CONNECTIONS = 0, 512
"""Connections that may wait until gRPC accepts them, which it does with all of them at once. Without this,
the system lets thousands wait, which take a second of CPU time."""

SILENT_SECONDS = 2.0
"""After this long without a heartbeat, the server reports not ready."""

STUCK_SECONDS = 10.0
"""After this long without a heartbeat, the server has failed."""

CROWD_SECONDS = 0.5
"""Time between two looks whether too many connections are open."""

IDLE_LOOKS = 8
"""Looks for silent connections in the time after which one ends."""

FLOOD_BYTES = 32_768
"""Least that is read between two looks of a connection that is ended."""

LAST_SECONDS = 5.0
"""Time for the process to end after a failure, before it is killed."""

_log = logging.getLogger(__name__)


class Watchdog:
    """Checks the heartbeats of a server in a thread, from `start` to `stop`.

    It counts checks, not seconds, because a process that was suspended as a whole is not stuck.

    gRPC reads a connection as long as something is there. Frames that cost it more than their sender keep
    its thread from all others. A connection is ended if it was read from one look to the next while the
    thread spent its CPU time and had no heartbeat: when honest messages arrive, it has one. gRPC also accepts
    connections as long as there are more. If they come faster than that, the kernel drops some for a while.
    Both need a server that tells the CPU time of the thread that reads: on Linux, the direct one.

    Args:
        server: a server that has been started.
        refusals: counts the connections that are ended.
        on_failure: called once, when it has failed.

    Attributes:
        failure: the reason of a failure; empty without one.
    """

    def __init__(self, server: Server, refusals: Refusals, on_failure: Callable[[], None]) -> None:
        self.failure = ""
        self._server = server
        self._refusals = refusals
        self._on_failure = on_failure
        self._silent_seconds = 0.0  # without a heartbeat
        self._wary_seconds = 0.0  # left
        self._busy_since = 0.0  # CPU time of the serving thread at the last heartbeat
        self._looks = 0  # at the connections since then
        self._few_seconds = 0.0  # left
        self._keeps_few = False
        self._silence_seconds = self._crowd_seconds = 0.0  # until the next look at connections
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watchdog", daemon=True)

    def is_alive(self) -> bool:
        """Whether the server had a heartbeat recently."""
        return not self.failure and self._silent_seconds < SILENT_SECONDS

    def start(self, connections: Connections, most_connections: int) -> None:
        """Begin to check.

        Args:
            connections: those of the server.
            most_connections: beyond so many, some end; see `Connections.end_silent`.
        """
        self._connections = connections
        self._most_connections = most_connections
        connections.keep_waiting(MANY_CONNECTIONS)
        self._thread.start()

    def stop(self) -> None:
        """Stop checking."""
        self._stopping.set()

    def _look(self) -> None:
        before = -1
        while not self._stopping.wait(
            seconds := WARY_LOOK_SECONDS if self._wary_seconds > 0 else LOOK_SECONDS
        ):
            beats, cpu_seconds = self._server.beats, _cpu_seconds(self._server.cpu_clock)
            self._wary_seconds -= seconds
            self._silent_seconds += seconds
            if beats != before:
                before, self._silent_seconds = beats, 0.0
                self._busy_since, self._looks = cpu_seconds, 0
            if self._server.failure is not None:
                self._fail(f"the thread that serves gRPC has failed: {self._server.failure!r}")
                return
            if self._silent_seconds >= STUCK_SECONDS:
                self._fail(f"the thread that serves gRPC has been stuck for {STUCK_SECONDS:g} seconds")
                return
            try:
                self._end_silent(seconds)
                self._accept_again(seconds)
                if cpu_seconds - self._busy_since >= seconds / 2:
                    self._busy_since = cpu_seconds
                    self._end_floods(beats)
            except Exception:  # a stuck thread must still end the process
                _log.exception("could not look for connections that keep gRPC")

    def _end_silent(self, seconds: float) -> None:
        self._silence_seconds -= seconds
        self._crowd_seconds -= seconds
        is_crowded = False
        if self._crowd_seconds <= 0:
            self._crowd_seconds = CROWD_SECONDS
            is_crowded = open_files() > self._most_connections
        idle_seconds = self._server.idle_seconds
        if not is_crowded and (self._silence_seconds > 0 or idle_seconds == math.inf):
            return
        self._silence_seconds = idle_seconds / IDLE_LOOKS
        if ended := self._connections.end_silent(idle_seconds, self._most_connections):
            self._refusals.add_connections(ended)
            _log.warning(
                "more than %d connections are open; ended %d that were silent for longest, of the addresses "
                "that have most",
                *(self._most_connections, ended),
            )

    def _end_floods(self, beats: int) -> None:
        def is_silent() -> bool:
            return self._server.beats == beats

        ended = self._connections.end_greediest(FLOOD_BYTES, is_silent) if self._looks else []
        self._refusals.add_connections(len(ended))
        for client in ended:
            _log.warning(
                "ended a connection that kept gRPC from all others", extra={"fields": {"client": client}}
            )
        looks_at_new = WARY_LOOKS_AT_NEW if self._wary_seconds > 0 else LOOKS_AT_NEW
        if ended:
            self._wary_seconds, self._looks = WARY_SECONDS, 0
        elif self._looks >= looks_at_new and self._few_seconds <= 0 and is_silent():
            self._wary_seconds, self._few_seconds = WARY_SECONDS, FEW_SECONDS
            self._keeps_few = self._connections.keep_waiting(FEW_CONNECTIONS)
            _log.warning(
                "gRPC seems to do nothing but accept connections; dropping some for %g s", FEW_SECONDS
            )
        self._looks += 1
        self._connections.look()

    def _accept_again(self, seconds: float) -> None:
        self._few_seconds -= seconds
        if self._keeps_few and self._few_seconds <= 0:
            self._keeps_few = not self._connections.keep_waiting(MANY_CONNECTIONS)

    def _fail(self, what: str) -> None:
        self.failure = what
        _log.critical("%s; ending the process", what)
        self._on_failure()
        time.sleep(LAST_SECONDS)
        # The thread that ends the process may itself be stuck.
        logging.shutdown()
        os._exit(1)


def _cpu_seconds(clock: int | None) -> float:
    """CPU time of a thread; 0 where the system does not tell, or once the thread has ended."""
    with suppress(OSError):
        return 0.0 if clock is None else time.clock_gettime(clock)
    return 0.0
