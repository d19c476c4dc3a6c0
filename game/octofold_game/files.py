"""Writes files atomically: to a temporary file in the same folder, which is then renamed.

A reader never sees half a file. A full disk or an interruption leaves the previous file in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["whole_file", "write_text"]


@contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """Yield a temporary path. It replaces `file` when the block ends and is deleted if the block fails."""
    partial = file.with_name(file.name + ".partial")
    try:
        yield partial
        partial.replace(file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_text(file: Path, text: str) -> None:
    """Write `text` to `file` atomically, as UTF-8."""
    with whole_file(file) as partial:
        partial.write_text(text, encoding="utf-8")
