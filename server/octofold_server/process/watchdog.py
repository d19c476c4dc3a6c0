"""Detects that the gRPC thread has failed or is stuck, while the process otherwise looks healthy.

It also ends connections that are silent, or beyond the maximum number.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from octofold_server.admission.refusals import Refusals
from octofold_server.grpc_transport.interface import Server
from octofold_server.system.connections import Connections, open_files

CHECK_SECONDS = 0.5

SILENT_SECONDS = 2.0
"""Time without a heartbeat after which the server reports not ready."""

STUCK_SECONDS = 10.0
"""Time without a heartbeat after which the server counts as failed."""

IDLE_CHECKS = 8
"""Number of checks for silent connections during the time that a connection may be silent."""

LAST_SECONDS = 5.0
"""Time limit for the process to end after a failure; then the watchdog ends it at once."""

_log = logging.getLogger(__name__)


class Watchdog:
    """Checks the heartbeats and the connections of a gRPC server in a thread, from `start` to `stop`.

    It measures time by counting its checks, so a server does not count as stuck if its process was suspended.

    Args:
        server: the gRPC server.
        refusals: counts the connections that are ended because too many are open.
        on_failure: called once when the server has failed.

    Attributes:
        failure: the reason for a failure; empty if there is none.
    """

    def __init__(self, server: Server, refusals: Refusals, on_failure: Callable[[], None]) -> None:
        self.failure = ""
        self._server = server
        self._refusals = refusals
        self._on_failure = on_failure
        self._silent_seconds = 0.0  # time without a heartbeat
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def is_alive(self) -> bool:
        """Return whether the server has not failed, and had a heartbeat within `SILENT_SECONDS`."""
        return not self.failure and self._silent_seconds < SILENT_SECONDS

    def start(self, connections: Connections, max_connections: int) -> None:
        """Begin to check the running server, and to end connections beyond `max_connections`."""
        self._connections = connections
        self._max_connections = max_connections
        self._thread.start()

    def stop(self) -> None:
        """Stop checking."""
        self._stopping.set()

    def _run(self) -> None:
        before = -1
        idle_seconds = self._server.idle_seconds
        until_idle_check = idle_seconds / IDLE_CHECKS
        while not self._stopping.wait(CHECK_SECONDS):
            beats = self._server.beats
            self._silent_seconds = self._silent_seconds + CHECK_SECONDS if beats == before else 0.0
            before = beats
            if self._server.failure is not None:
                self._fail(f"the thread that serves gRPC has failed: {self._server.failure!r}")
                return
            if self._silent_seconds >= STUCK_SECONDS:
                self._fail(f"the thread that serves gRPC has been stuck for {STUCK_SECONDS:g} seconds")
                return
            until_idle_check -= CHECK_SECONDS
            try:
                if until_idle_check <= 0 or open_files() > self._max_connections:
                    until_idle_check = idle_seconds / IDLE_CHECKS
                    self._end_silent(idle_seconds)
            except Exception:  # no error may end the thread
                _log.exception("cannot end silent connections")

    def _end_silent(self, idle_seconds: float) -> None:
        if ended := self._connections.end_silent(idle_seconds, self._max_connections):
            self._refusals.add_connections(ended)
            _log.warning(
                "more than %d connections are open; ended the %d that had been silent for longest, from the "
                "addresses with the most connections",
                *(self._max_connections, ended),
            )

    def _fail(self, what: str) -> None:
        self.failure = what
        _log.critical("%s; ending the process", what)
        self._on_failure()
        time.sleep(LAST_SECONDS)
        # The process is still alive, so the thread that should end it may be stuck, too.
        logging.shutdown()
        os._exit(1)
