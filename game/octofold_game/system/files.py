"""Reads and writes files: writes are atomic, and reads neither block nor use unlimited memory.

New content goes to a temporary file in the same folder. This file is then renamed. So a reader never sees an
incomplete file, and a full disk or an interruption leaves the previous file in place.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TextIO

# Without O_NONBLOCK, opening a pipe waits for a writer.
_WITHOUT_WAITING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: Path, max_bytes: int) -> BufferedReader:
    """Open a file for reading without waiting; a symbolic link is followed.

    Raises:
        OSError: the file cannot be opened, is a pipe, a device or a folder, or has more than `max_bytes`.
            `strerror` names the reason.
    """
    descriptor = os.open(path, _WITHOUT_WAITING)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if status.st_size > max_bytes:
            raise _too_large(path, max_bytes)
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a file. Raises the errors of `open_regular`."""
    with open_regular(path, max_bytes) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:  # the file has grown since it was opened
        raise _too_large(path, max_bytes)
    return content


def _too_large(path: Path, max_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"it has more than {max_bytes} bytes", str(path))


def nearest_existing(path: Path) -> Path:
    """Return the path itself, or the nearest folder above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def why_not_writable(folder: Path) -> str | None:
    """Return why a folder is not writable, or cannot be made if it is missing; None if nothing is wrong."""
    nearest = nearest_existing(folder)
    if not nearest.is_dir():
        return f"{nearest} is not a folder"
    return None if os.access(nearest, os.W_OK | os.X_OK) else f"{nearest} is not writable"


@contextmanager
def atomic_write(file: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path for a new file, which replaces `file` when the block ends.

    If the block fails, the new file is deleted. With `durable`, the end of the block waits for the disk.
    Without it, the file may be empty or full of zeros after a power cut. Each writer has its own temporary
    path, and the last of several writers wins.
    """
    partial = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        yield partial
        if durable:
            with partial.open("rb") as written:
                os.fsync(written.fileno())
        partial.replace(file)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        _add_name(error, file, partial)
        raise


@contextmanager
def appending(file: Path) -> Iterator[TextIO]:
    """Open a file to append UTF-8 text. Add its name to errors of the block that name no file."""
    with name_file_in_errors(file), file.open("a", encoding="utf-8") as opened:
        yield opened


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Add the name `path` to errors of the block that name no file, such as the error of a full disk."""
    try:
        yield
    except OSError as error:
        _add_name(error, path)
        raise


def _add_name(error: BaseException, file: Path, partial: Path | None = None) -> None:
    """Add the name `file` to an error that names no file, or only the temporary file `partial`."""
    nameless = (None, partial, str(partial)) if partial else (None,)
    # Python does not show the text of an OSError that has a file name, but no `errno`.
    if isinstance(error, OSError) and error.errno and error.filename in nameless:
        error.filename = str(file)


def write_text(file: Path, text: str, *, durable: bool = False) -> None:
    """Write `text` to `file` atomically, as UTF-8; `atomic_write` explains `durable`."""
    with atomic_write(file, durable=durable) as partial:
        partial.write_text(text, encoding="utf-8")
