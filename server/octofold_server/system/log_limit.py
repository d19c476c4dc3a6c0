"""Limits repeated log lines, so that they cannot fill the disk.

Anyone who can reach the port can cause log lines, for example by calls without a token.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

MAX_LINES = 100
WINDOW_SECONDS = 10.0
"""A place in the code may log `MAX_LINES` lines in this time. Further lines are counted, and their number is
logged at the end of that time."""

_Origin = tuple[str, int, str, int]  # logger, level, file, line


class _Count(logging.LogRecord):
    """Logs the number of omitted records."""


@dataclass
class _Window:
    """The records of one place in the code since a time."""

    ends: float
    last: logging.LogRecord
    lines: int = 0
    left_out: int = 0


class RepeatLimit(logging.Filter):
    """Omits records if one place in the code logs too many.

    Debug records always pass, because an operator who enables them wants one for each call.

    Args:
        emit: writes the records with the numbers of omitted records.
        most: maximum records of a place in one window.
        seconds: length of a window.
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
        self._windows: dict[_Origin, _Window] = {}  # at most one entry for each line of code that logs
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()  # guards the two above

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record passes."""
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
            self._report(over)
        return passes

    def close(self) -> None:
        """Log the numbers of records omitted so far."""
        with self._lock:
            windows, self._windows = self._windows, {}
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        for window in windows.values():
            self._report(window)

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
            self._report(window)

    def _report(self, window: _Window) -> None:
        if window.left_out == 0:
            return
        last = window.last
        text = "omitted %d similar lines; the last one: %s"
        arguments = (window.left_out, last.getMessage())
        record = _Count(last.name, last.levelno, last.pathname, last.lineno, text, arguments, None)
        if (fields := getattr(last, "fields", None)) is not None:
            record.fields = fields
        self._emit(record)
