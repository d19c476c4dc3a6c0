"""Detects that the gRPC thread has failed or is stuck; the process would otherwise look healthy."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from octofold_server.grpc_transport.interface import Server
from octofold_server.system.connections import Connections

LOOK_SECONDS = 0.25

SILENT_SECONDS = 2.0
"""After this long without a heartbeat, the server reports not ready."""

STUCK_SECONDS = 10.0
"""After this long without a heartbeat, the server has failed."""

FLOODED_SECONDS = 1.0
"""After this long without a heartbeat, the connections that keep the server reading are ended."""

FLOOD_BYTES = 32_768
"""Least that is read of a connection, without a heartbeat meanwhile, before it is ended."""

LAST_SECONDS = 5.0
"""Time for the process to end after a failure, before it is killed."""

_log = logging.getLogger(__name__)


class Watchdog:
    """Checks the heartbeats of a server in a thread, from `start` to `stop`.

    It counts checks, not seconds, because a process that was suspended as a whole is not stuck.

    gRPC reads a connection as long as something is there. Frames that cost it more than their sender, and
    that no window bounds, keep its thread from all others. Their connections are ended.

    Args:
        server: a server that has been started.
        on_failure: called once, when it has failed.

    Attributes:
        failure: the reason of a failure; empty without one.
    """

    def __init__(self, server: Server, on_failure: Callable[[], None]) -> None:
        self.failure = ""
        self._server = server
        self._on_failure = on_failure
        self._looks_without_beat = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watchdog", daemon=True)

    def is_alive(self) -> bool:
        """Whether the server had a heartbeat recently."""
        return not self.failure and self._looks_without_beat * LOOK_SECONDS < SILENT_SECONDS

    def start(self, connections: Connections) -> None:
        """Begin to check; `connections` are those of the server."""
        self._connections = connections
        self._thread.start()

    def stop(self) -> None:
        """Stop checking."""
        self._stopping.set()

    def _look(self) -> None:
        before = -1
        while not self._stopping.wait(LOOK_SECONDS):
            beats = self._server.beats
            self._looks_without_beat = 0 if beats != before else self._looks_without_beat + 1
            before = beats
            if self._server.failure is not None:
                self._fail(f"the thread that serves gRPC has failed: {self._server.failure!r}")
                return
            if self._looks_without_beat * LOOK_SECONDS >= STUCK_SECONDS:
                self._fail(f"the thread that serves gRPC has been stuck for {STUCK_SECONDS:g} seconds")
                return
            try:
                self._end_floods()
            except Exception:  # a stuck thread must still end the process
                _log.exception("could not look for connections that keep gRPC")

    def _end_floods(self) -> None:
        looks = int(FLOODED_SECONDS / LOOK_SECONDS)
        if self._looks_without_beat == looks - 1:
            self._connections.look()
        elif self._looks_without_beat >= looks:
            ended = self._connections.end_greediest(FLOOD_BYTES)
            for client in ended:
                _log.warning(
                    "ended a connection that kept gRPC from all others", extra={"fields": {"client": client}}
                )
            if ended:  # what honest clients sent before counts no longer
                self._connections.look()

    def _fail(self, what: str) -> None:
        self.failure = what
        _log.critical("%s; ending the process", what)
        self._on_failure()
        time.sleep(LAST_SECONDS)
        # The thread that ends the process may itself be stuck.
        logging.shutdown()
        os._exit(1)
