"""How the server writes its log: lines for people, or one JSON object a line for programs.

A record may carry `extra={"fields": {...}}`, which both forms show. Knows nothing about what is logged.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

__all__ = ["JsonLines", "TextLines", "set_up_log"]


class TextLines(logging.Formatter):
    """Time, level, place and message, then the fields as name=value.

    What is not to be printed is escaped: no text that came from a caller makes a line of its own.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- logging's
        line = super().formatMessage(record)
        if fields := _fields(record):
            line = f"{line} [{' '.join(f'{name}={value}' for name, value in fields.items())}]"
        return line if line.isprintable() else _escaped(line)


class JsonLines(logging.Formatter):
    """One object: time (RFC 3339, UTC), level, logger, message, the traceback if any, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps({**_fields(record), **line}, default=str)


def set_up_log(form: str, level: str) -> None:
    """Log to standard error from now on.

    Args:
        form: "text" or "json".
        level: the least that is logged: "debug", "info", "warning" or "error".
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.raiseExceptions = False  # a full disk under the log must not become a flood of tracebacks
    logging.captureWarnings(True)


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, Mapping) else {}
