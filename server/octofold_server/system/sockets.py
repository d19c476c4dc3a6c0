"""Listening sockets, folders for private sockets, port files, and the limit on open files."""

from __future__ import annotations

import errno
import ipaddress
import os
import resource
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from octofold_game.errors import OctofoldError
from octofold_game.system.files import write_text

ENOUGH_FILES = 65_536
"""Limit on open files that the server sets, unless the system allows only fewer."""

OTHER_PARENTS = ("/tmp", "/dev/shm")
"""Parent folders for sockets if TMPDIR cannot be used. /dev/shm is in memory, so it is writable even in a
container with a read-only file system."""

MAX_FOLDER_BYTES = 90
"""Maximum bytes of the path of a folder for sockets. A socket's path has at most 104 bytes, 108 on Linux."""


class StartupError(OctofoldError):
    """The server cannot start; the message gives the reason."""


def is_socket(host: str) -> bool:
    """Return whether a host is a Unix socket of this machine, such as unix:/run/octofold.sock."""
    return host.startswith("unix:")


def check_socket(host: str) -> None:
    """Check that no other server listens on a Unix socket, because gRPC would replace the socket.

    Raises:
        StartupError: another server listens on the socket.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(host.removeprefix("unix:").removeprefix("//"))
        except OSError:  # no server listens; if the path is wrong, gRPC reports it
            return
    raise StartupError(f"cannot listen on {host}: {os.strerror(errno.EADDRINUSE)}")


def address_of(host: str, port: int) -> str:
    """Return a host and a port as HOST:PORT, and a `unix:` host unchanged."""
    if is_socket(host):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether a name or address leads only to this machine's loopback, or is a Unix socket."""
    if is_socket(host):
        return True
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # `listener_on` then raises an error that gives the reason
        return False
    return all(ipaddress.ip_address(address[0]).is_loopback for *_, address in addresses)


def file_limit() -> int:
    """Raise the limit on open files to `ENOUGH_FILES` if possible; return it, but at most `ENOUGH_FILES`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, ENOUGH_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def listener_on(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a socket that listens on an address.

    Args:
        host: name or address of the host.
        port: port; 0 for a free one.
        shared: whether other sockets may share the port; the kernel spreads connections over them.

    Raises:
        StartupError: the server cannot listen on the address; the message gives the reason.
    """
    listener = _bound(host, port, shared=shared)
    try:
        listener.listen()
    except OSError as error:
        listener.close()
        raise StartupError(f"cannot listen on {address_of(host, port)}: {error.strerror}") from error
    return listener


def listeners_on(
    host: str, port: int, *, shared: bool = False, resolve: Callable[..., Any] = socket.getaddrinfo
) -> list[socket.socket]:
    """Return sockets that listen on the same port of every address of a host, as gRPC does.

    Args:
        host: name or address of the host.
        port: port; 0 for a free one.
        shared: as for `listener_on`.
        resolve: returns the addresses of a host, as `socket.getaddrinfo` does.

    Raises:
        StartupError: the server cannot listen on an address of this machine, or the host has no such address.
    """
    try:
        addresses = resolve(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        addresses = []  # `listener_on` then raises an error that gives the reason
    first, *others = list(dict.fromkeys(place[0] for *_, place in addresses)) or [host]
    listeners = [listener_on(first if others else host, port, shared=shared)]
    for address in others:
        try:
            listeners.append(listener_on(address, int(listeners[0].getsockname()[1]), shared=shared))
        except StartupError as error:
            if getattr(error.__cause__, "errno", 0) not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                for listener in listeners:
                    listener.close()
                raise
    return listeners


@contextmanager
def hold_port(host: str, port: int) -> Iterator[int]:
    """Reserve a port for shared sockets (see `listener_on`) until the block ends, and yield its number.

    Raises:
        StartupError: the port cannot be bound; the message gives the reason.
    """
    with _bound(host, port, shared=False) as alone:
        # Bind the port exclusively, and share it only afterwards. Otherwise a second server could share it.
        # With SO_REUSEADDR, it could even share an exclusively bound port on which nobody listens.
        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield int(alone.getsockname()[1])


def _bound(host: str, port: int, *, shared: bool) -> socket.socket:
    address = address_of(host, port)
    try:
        family, kind, protocol, _, socket_address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        try:
            listener = socket.socket(family, kind, protocol)
        except OSError as error:
            if host == "::" and error.errno == errno.EAFNOSUPPORT:  # the kernel has no IPv6
                return _bound("0.0.0.0", port, shared=shared)
            raise
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(socket_address)
        except OSError:
            listener.close()
            raise
        return listener
    except OSError as error:
        raise StartupError(f"cannot listen on {address}: {error.strerror}") from error
    except UnicodeError as error:
        raise StartupError(f"cannot listen on {address}: {host!r} is not the name of a host") from error


@contextmanager
def socket_folder() -> Iterator[Path]:
    """Make a temporary folder for sockets, and remove it on exit. Only the user of this process can enter it.

    Raises:
        StartupError: no folder can be made whose path is short enough for sockets.
    """
    with _new_socket_folder() as folder:
        yield Path(folder)


def _new_socket_folder() -> tempfile.TemporaryDirectory[str]:
    for parent in (None, *OTHER_PARENTS):  # None: TMPDIR decides
        with suppress(OSError):
            folder = tempfile.TemporaryDirectory(prefix="octofold-", dir=parent)
            if len(os.fsencode(folder.name)) <= MAX_FOLDER_BYTES:
                return folder
            folder.cleanup()
    raise StartupError(
        f"cannot make a folder for the server's own sockets in TMPDIR, {' or '.join(OTHER_PARENTS)}; set "
        "TMPDIR to a writable folder with a short path"
    )


@contextmanager
def port_written(path: Path | None, port: int) -> Iterator[None]:
    """Write the port to the file at `path`, and remove the file when the block ends; do nothing for None.

    Raises:
        StartupError: the file cannot be written.
    """
    if path is None:
        yield
        return
    try:
        write_text(path, f"{port}\n")
    except OSError as error:
        raise StartupError(f"cannot write the port file {path}: {error.strerror}") from error
    try:
        yield
    finally:
        with suppress(OSError):  # its reader may have removed it
            path.unlink()
