"""Formats the server's log: lines for people, or one JSON object per line for programs.

A record may have `extra={"fields": {...}}`, which both formats show. Messages and fields may contain text
from callers: both formats shorten it, and prevent it from looking like another line or field. Anyone who can
reach the port can cause log lines, so the number of similar lines is limited, and they cannot fill the disk.
"""

from __future__ import annotations

import json
import logging
import queue
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO

MAX_MESSAGE = 2000
MAX_TRACEBACK = 10_000
MAX_FIELD = 200
"""Maximum number of characters of a message, a traceback or a field; longer texts lose their middle."""

WAITING_LINES = 1000
"""Maximum number of lines that wait to be written."""

LAST_LINES_SECONDS = 1.0
"""Time limit for writing the last lines when the process ends."""

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_PLAIN = re.compile(r"[^\s\[\]\"=]*")


class TextLines(logging.Formatter):
    """Formats records as text: time, level, logger, message, and fields as name=value, quoted where needed.

    Unprintable characters are escaped, so that a caller's text never begins a new line.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- logging's
        """Return the line without a traceback."""
        record.message = _cut(record.message, MAX_MESSAGE)
        line = super().formatMessage(record)
        if fields := _fields(record):
            line = f"{line} [{' '.join(f'{name}={_quoted(value)}' for name, value in fields.items())}]"
        return line if line.isprintable() else _escaped(line)

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 -- logging's
        """Return the traceback, shortened."""
        return _cut(super().formatException(ei), MAX_TRACEBACK)


class JsonLines(logging.Formatter):
    """Formats records as JSON objects: time (RFC 3339, UTC), level, logger, message, traceback, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(record.getMessage(), MAX_MESSAGE),
        }
        if record.exc_info:
            line["traceback"] = _cut(self.formatException(record.exc_info), MAX_TRACEBACK)
        return json.dumps({**_fields(record), **line})


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes log lines to a stream, with a limit on similar lines.

    Lines that the stream does not accept at once wait in a queue for a separate thread, so a log reader that
    stops reading delays no caller. Lines that do not fit into the queue are dropped and counted.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._limit = RepeatLimit(self.handle)
        self.addFilter(self._limit)
        self._lines: queue.Queue[str | None] = queue.Queue(WAITING_LINES)
        self._waiting = 0  # number of lines in the queue, plus the line that the thread is writing
        self._dropped = 0
        # This lock guards `_waiting` and `_dropped`. The handler's own lock cannot, because
        # `logging.shutdown` holds it during `close`.
        self._counting = threading.Lock()
        self._thread = threading.Thread(target=self._write_lines, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of a record, or put it into the queue."""
        line = self.format(record)
        if not self._waiting and self._is_writable(line):
            self._write(line)
            return
        with self._counting:
            try:
                self._lines.put_nowait(line)
                self._waiting += 1
            except queue.Full:
                self._dropped += 1

    def _is_writable(self, line: str) -> bool:
        """Return whether the stream accepts a line at once. A writable pipe accepts `PIPE_BUF` bytes."""
        if len(line) * 4 >= select.PIPE_BUF:
            return False
        poll = select.poll()
        try:
            poll.register(self.stream, select.POLLOUT)
        except ValueError:  # the stream is closed
            return True
        return any(event & select.POLLOUT for _, event in poll.poll(0))

    def flush(self) -> None:
        """Do nothing: every line is flushed when it is written, and the stream may be blocked."""

    def close(self) -> None:
        """Write the queued lines, unless the stream is blocked."""
        self._limit.close()
        with suppress(queue.Full):
            self._lines.put(None, timeout=LAST_LINES_SECONDS)
            self._thread.join(LAST_LINES_SECONDS)
        super().close()

    def _write_lines(self) -> None:
        while (line := self._lines.get()) is not None:
            self._write(line)
            with self._counting:
                dropped, self._dropped = self._dropped, 0
            if dropped:
                what = "lines dropped, because the output of the log was blocked: %d"
                count = _Count(__name__, logging.WARNING, __file__, 0, what, (dropped,), None)
                self._write(self.format(count))
            with self._counting:
                self._waiting -= 1

    def _write(self, line: str) -> None:
        with suppress(OSError, ValueError):  # a full disk, or a reader that has gone
            self.stream.write(line + self.terminator)
            self.stream.flush()


def set_up_log(form: str, level: str) -> None:
    """Log to standard error as "text" or "json", from the level "debug", "info", "warning" or "error" on.

    Call this once in a process, because each call starts a thread.
    """
    handler = LogHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.raiseExceptions = False  # a full disk must not cause a flood of tracebacks
    logging.captureWarnings(True)
    # This logger writes a traceback for each header that is not UTF-8, which costs more than the call. The
    # server itself logs everything else that this logger would report.
    logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)


def _cut(text: str, limit: int) -> str:
    """Return the text, without its middle if it is too long, because a traceback ends with the reason."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}... {len(text) - limit} characters ...{text[len(text) - limit // 2 :]}"


def _quoted(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _fields(record: logging.LogRecord) -> Mapping[str, str]:
    fields = getattr(record, "fields", None)
    if not isinstance(fields, Mapping):
        return {}
    return {str(name): _cut(str(value), MAX_FIELD) for name, value in fields.items()}


MAX_LINES = 100
WINDOW_SECONDS = 10.0
"""Length of the window in which one place in the code may log `MAX_LINES` lines. Further lines are only
counted. Their number is logged before the next line of this place, and at shutdown."""

_Origin = tuple[str, int, str, int]  # logger, level, file, line


class _Count(logging.LogRecord):
    """A record that reports the number of omitted records."""


@dataclass
class _Window:
    """The records of one place in the code during one window of time."""

    ends: float
    last: logging.LogRecord
    lines: int = 0
    left_out: int = 0


class RepeatLimit(logging.Filter):
    """A filter that omits records if one place in the code logs too many.

    Debug records always pass, because an operator who enables them wants one for each call.

    Args:
        emit: writes the records that report numbers of omitted records.
        max_lines: maximum records of one place in a window of time.
        seconds: length of a window.
    """

    def __init__(
        self,
        emit: Callable[[logging.LogRecord], object],
        max_lines: int = MAX_LINES,
        seconds: float = WINDOW_SECONDS,
    ) -> None:
        super().__init__()
        self._emit = emit
        self._max_lines = max_lines
        self._seconds = seconds
        self._windows: dict[_Origin, _Window] = {}  # at most one entry for each line of code that logs
        self._lock = threading.Lock()  # guards `_windows`

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record passes."""
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
            passes = window.lines <= self._max_lines
            if not passes:
                window.left_out += 1
                window.last = record
        if over is not None:
            self._report(over)
        return passes

    def close(self) -> None:
        """Log the numbers of records omitted so far."""
        with self._lock:
            windows, self._windows = self._windows, {}
        for window in windows.values():
            self._report(window)

    def _report(self, window: _Window) -> None:
        if window.left_out == 0:
            return
        last = window.last
        text = "similar lines omitted: %d; the last one: %s"
        arguments = (window.left_out, last.getMessage())
        record = _Count(last.name, last.levelno, last.pathname, last.lineno, text, arguments, None)
        if (fields := getattr(last, "fields", None)) is not None:
            record.fields = fields
        self._emit(record)
