"""Files that are whole or not there: written beside their place and renamed into it.

A reader never meets half a file, and a full disk or an interruption leaves what was there before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["whole_file", "write_text"]


@contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `file` when the block ends and is gone if it fails."""
    partial = file.with_name(file.name + ".partial")
    try:
        yield partial
        partial.replace(file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_text(file: Path, text: str) -> None:
    """Write `text` as UTF-8, whole or not at all."""
    with whole_file(file) as partial:
        partial.write_text(text, encoding="utf-8")
