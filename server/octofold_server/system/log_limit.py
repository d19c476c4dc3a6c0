"""Keeps a line that is logged again and again from filling the disk.

Anyone who reaches the port can cause a line: by a call without a token, or by metadata that gRPC cannot
decode. Knows nothing about what is logged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["RepeatLimit"]

MAX_LINES = 100
WINDOW_SECONDS = 10.0
"""A place in the code may log `MAX_LINES` lines in this time. What else it logs is counted, and the count is
logged at the end of that time."""

_Place = tuple[str, int, str, int]  # logger, level, file, line


class _Count(logging.LogRecord):
    """Tells how many records did not pass."""


@dataclass
class _Window:
    """What one place has logged since a time."""

    ends: float
    last: logging.LogRecord
    lines: int = 0
    left_out: int = 0


class RepeatLimit(logging.Filter):
    """Lets records pass until there are too many of the same place in the code. Lines of level debug always
    pass: an operator who asks for them wants one for each call.

    Args:
        emit: writes the records that tell how many were left out.
        most: how many records of a place pass in one window.
        seconds: how long a window is.
    """

    def __init__(
        self,
        emit: Callable[[logging.LogRecord], object],
        most: int = MAX_LINES,
        seconds: float = WINDOW_SECONDS,
    ) -> None:
        super().__init__()
        self._emit = emit
        self._most = most
        self._seconds = seconds
        self._windows: dict[_Place, _Window] = {}  # as many as there are lines of code that log
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()  # guards the two above

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO or isinstance(record, _Count):
            return True
        place = (record.name, record.levelno, record.pathname, record.lineno)
        now = time.monotonic()
        over = None
        with self._lock:
            window = self._windows.get(place)
            if window is None or now >= window.ends:
                over = window
                window = self._windows[place] = _Window(now + self._seconds, record)
            window.lines += 1
            passes = window.lines <= self._most
            if not passes:
                window.left_out += 1
                window.last = record
                self._watch()
        if over is not None:
            self._tell(over)
        return passes

    def close(self) -> None:
        """Tell what was left out up to now."""
        with self._lock:
            windows, self._windows = self._windows, {}
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        for window in windows.values():
            self._tell(window)

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._seconds, self._look)
            self._timer.daemon = True
            self._timer.start()

    def _look(self) -> None:
        now = time.monotonic()
        with self._lock:
            self._timer = None
            over = {place: window for place, window in self._windows.items() if now >= window.ends}
            for place in over:
                del self._windows[place]
            if any(window.left_out for window in self._windows.values()):
                self._watch()
        for window in over.values():
            self._tell(window)

    def _tell(self, window: _Window) -> None:
        if window.left_out == 0:
            return
        last = window.last
        text = "%d lines were left out; the last of them: %s"
        arguments = (window.left_out, last.getMessage())
        record = _Count(last.name, last.levelno, last.pathname, last.lineno, text, arguments, None)
        if (fields := getattr(last, "fields", None)) is not None:
            record.fields = fields
        self._emit(record)
