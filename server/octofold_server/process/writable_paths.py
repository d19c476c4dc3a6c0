"""Checks, before models are loaded, that the server can write its files. Loading may take minutes."""

from __future__ import annotations

import errno
import os
import tempfile

from octofold_server.config.options import Config
from octofold_server.system.sockets import StartupError, is_socket


def check_writable_paths(config: Config) -> None:
    """Check that the port files and the ready file can be written, without changing them.

    Raises:
        StartupError: a file cannot be written, or the host is a Unix socket together with options that do
            not support it.
    """
    if is_socket(config.host) and (config.rest_port is not None or config.processes > 1):
        raise StartupError(
            f"--host {config.host} is a Unix socket, which serves gRPC from one process; "
            "remove --rest-port and --processes"
        )
    for name, path in (
        ("port file", config.port_file),
        ("port file", config.rest_port_file),
        ("ready file", config.ready_file),
    ):
        if path is None:
            continue
        try:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise StartupError(f"cannot write the {name} {path}: {error.strerror}") from error
