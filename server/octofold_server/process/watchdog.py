"""Notices when the thread that serves gRPC has failed or is stuck: else the process would look healthy and
answer nobody.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from octofold_server.transport.interface import Server

__all__ = ["Watchdog"]

LOOK_SECONDS = 0.25

SILENT_SECONDS = 2.0
"""Without a beat for this long, new callers should go elsewhere."""

STUCK_SECONDS = 10.0
"""Without a beat for this long, the server will not come back."""

LAST_SECONDS = 5.0
"""For the process to end by itself once it has failed."""

_log = logging.getLogger(__name__)


class Watchdog:
    """Looks at the beats of a server from `start` to `stop`, on a thread of its own.

    It counts its own looks, not seconds: a process that was suspended as a whole is not stuck.

    Args:
        server: started already.
        on_failure: called once, when it has failed.

    Attributes:
        failure: what is wrong, for people; empty while all is well.
    """

    def __init__(self, server: Server, on_failure: Callable[[], None]) -> None:
        self.failure = ""
        self._server = server
        self._on_failure = on_failure
        self._looks_without_beat = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watchdog", daemon=True)

    def is_alive(self) -> bool:
        """Whether the server has served a moment ago."""
        return not self.failure and self._looks_without_beat * LOOK_SECONDS < SILENT_SECONDS

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
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

    def _fail(self, what: str) -> None:
        self.failure = what
        _log.critical("%s: the process ends", what)
        self._on_failure()
        time.sleep(LAST_SECONDS)
        # Whoever ends the process may wait for what is stuck.
        logging.shutdown()
        os._exit(1)
