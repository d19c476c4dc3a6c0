"""Checks, before minutes of loading, that the files which the server is to write can be written."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from octofold_server.config.options import Config
from octofold_server.system.sockets import StartupError, is_socket


def check_places(config: Config) -> None:
    """Check the files of the ports and the ready file, and change none of them.

    Raises:
        StartupError: one cannot be written.
    """
    if is_socket(config.host) and (config.rest_port is not None or config.processes > 1):
        raise StartupError(f"--host {config.host} is for gRPC and one process, without --rest-port")
    for name, path, check in (
        ("port file", config.port_file, _check_replaced),
        ("port file", config.rest_port_file, _check_replaced),
        ("ready file", config.ready_file, _check_touched),
    ):
        try:
            if path is not None:
                check(path)
        except OSError as error:
            raise StartupError(f"cannot write the {name} {path}: {error.strerror}") from error


def _check_replaced(path: Path) -> None:
    """Raises `OSError` if no file can be put there, in place of what is there already."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with tempfile.TemporaryFile(dir=path.parent):
        pass


def _check_touched(path: Path) -> None:
    """Raises `OSError` if a file cannot be touched, or made if there is none.

    It is not touched: a probe would take the file of an earlier server for a server that is ready.
    """
    if path.is_dir() or not path.exists():
        _check_replaced(path)
    elif not os.access(path, os.W_OK, effective_ids=True) and path.stat().st_uid != os.geteuid():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
