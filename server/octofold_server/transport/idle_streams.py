"""Ends streams on which nothing comes and nothing is owed, or whose client takes nothing."""

from __future__ import annotations

import threading
import time
from typing import Protocol

__all__ = ["IdleStreams"]

LOOK_SECONDS = 0.5


class _Stream(Protocol):
    @property
    def ended(self) -> bool: ...
    def end_if_idle(self, idle_seconds: float) -> None: ...


class IdleStreams:
    """Looks at streams several times in the time that they have, on a thread that runs while there are any.

    Args:
        seconds: how long a stream may be idle; infinity lets it be until the server shuts down.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._streams: set[_Stream] = set()
        self._watching = False
        self._lock = threading.Lock()  # guards the two above

    def watch(self, stream: _Stream) -> None:
        """Watch a stream from now on, until it ends."""
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
