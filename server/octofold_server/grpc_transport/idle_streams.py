"""Ends streams that are idle, or whose client does not read its replies."""

from __future__ import annotations

import threading
import time
from typing import Protocol

LOOK_SECONDS = 0.5


class _Stream(Protocol):
    @property
    def ended(self) -> bool: ...
    def end_if_idle(self, idle_seconds: float) -> None: ...


class IdleStreams:
    """Checks streams several times per time limit, on a thread that runs while any stream is open.

    Args:
        seconds: time limit for an idle stream; with infinity it stays open until the server shuts down.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._streams: set[_Stream] = set()
        self._watching = False
        self._lock = threading.Lock()  # guards the two above

    def watch(self, stream: _Stream) -> None:
        """Watch a stream until it ends."""
        with self._lock:
            self._streams.add(stream)
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._look, name="idle-streams", daemon=True).start()

    def _look(self) -> None:
        while True:
            time.sleep(min(LOOK_SECONDS, self._seconds / 8))
            with self._lock:
                self._streams = {stream for stream in self._streams if not stream.ended}
                streams = list(self._streams)
                if not streams:
                    self._watching = False
                    return
            for stream in streams:
                stream.end_if_idle(self._seconds)
