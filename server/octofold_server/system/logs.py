"""Formats the server's log: lines for people, or one JSON object per line for programs.

A record may have `extra={"fields": {...}}`, which both formats show. Messages and fields may contain text
from callers: both formats shorten it, and prevent it from looking like another line or field.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO

from octofold_server.system.log_limit import RepeatLimit

MAX_MESSAGE = 2000
MAX_TRACEBACK = 10_000
MAX_FIELD = 200
"""Maximum number of characters; longer texts lose their middle."""

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

_PLAIN = re.compile(r"[^\s\[\]\"=]*")


class TextLines(logging.Formatter):
    """Time, level, place and message, then the fields as name=value, with quotes where needed.

    Unprintable characters are escaped, so that a caller's text never begins a new line.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- logging's
        """The line without a traceback."""
        record.message = _cut(record.message, MAX_MESSAGE)
        line = super().formatMessage(record)
        if fields := _fields(record):
            line = f"{line} [{' '.join(f'{name}={_quoted(value)}' for name, value in fields.items())}]"
        return line if line.isprintable() else _escaped(line)

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 -- logging's
        """The traceback, shortened."""
        return _cut(super().formatException(ei), MAX_TRACEBACK)


class JsonLines(logging.Formatter):
    """One JSON object: time (RFC 3339, UTC), level, logger, message, a traceback if any, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(record.getMessage(), MAX_MESSAGE),
        }
        if record.exc_info:
            line["traceback"] = _cut(self.formatException(record.exc_info), MAX_TRACEBACK)
        return json.dumps({**_fields(record), **line})


class _LimitedHandler(logging.StreamHandler[TextIO]):
    """Writes lines to a stream, with a limit on repeated lines."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._limit = RepeatLimit(self.handle)
        self.addFilter(self._limit)

    def close(self) -> None:
        self._limit.close()
        super().close()


def set_up_log(form: str, level: str) -> None:
    """Log to standard error from now on.

    Args:
        form: "text" or "json".
        level: minimum level: "debug", "info", "warning" or "error".
    """
    handler = _LimitedHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.raiseExceptions = False  # a full disk must not cause a flood of tracebacks
    logging.captureWarnings(True)
    # For each header that is not UTF-8 it makes a traceback, which costs more than the call. It logs nothing
    # else that we do not log.
    logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)


def _cut(text: str, most: int) -> str:
    """The text without its middle if it is too long; a traceback ends with the reason."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}... {len(text) - most} characters ...{text[len(text) - most // 2 :]}"


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
