"""Checks, before minutes of loading, that the files which tell others of the server can be written."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from octofold_server.config.options import Config
from octofold_server.system.sockets import StartupError


def check_places(config: Config) -> None:
    """Check the files of the ports and the ready file: they are made, removed and made again.

    Raises:
        StartupError: one cannot be written.
    """
    files = {"port file": (config.port_file, config.rest_port_file), "ready file": (config.ready_file,)}
    for name, paths in files.items():
        for path in paths:
            try:
                if path is not None:
                    _check_place(path)
            except OSError as error:
                raise StartupError(f"cannot write the {name} {path}: {error.strerror}") from error


def _check_place(path: Path) -> None:
    """Raises `OSError` if a file cannot be written, or cannot be made again."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    with tempfile.TemporaryFile(dir=path.parent):
        pass
