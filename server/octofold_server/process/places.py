"""Checks, before minutes of loading, that the files which tell others of the server can be written."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from octofold_server.config.options import Config
from octofold_server.system.sockets import StartupError


def check_places(config: Config) -> None:
    """Check the files of the ports and the ready file.

    Raises:
        StartupError: one cannot be written.
    """
    for path in (config.port_file, config.rest_port_file):
        _check_place("port file", path, is_replaced=True)
    _check_place("ready file", config.ready_file, is_replaced=False)


def _check_place(name: str, path: Path | None, *, is_replaced: bool) -> None:
    """Check that a file can be written: one that is replaced, not only touched, needs its folder."""
    if path is None:
        return
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if is_replaced or not path.exists():
            with tempfile.TemporaryFile(dir=path.parent):
                pass
    except OSError as error:
        raise StartupError(f"cannot write the {name} {path}: {error.strerror}") from error
