"""What this process may know and do about its connections without the library that has them.

That is how much of each was read, how one ends, and how many new ones may wait.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import socket
import struct
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from ipaddress import ip_address
from operator import itemgetter
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")
_INFO_BYTES = 136
_RECEIVED = struct.Struct("=128xQ")
"""Where the kernel's `tcp_info` has the number of bytes that have arrived."""
_SILENT_MS = struct.Struct("=52xI")
"""Where it has the time since the last of them."""

SPARE_SHARE = 16
"""One in so many of the connections that may be open is ended as well when there are too many."""

Peer = tuple[object, ...]
"""The address and the port of a client, as `socket.getpeername` returns them."""


class Connections:
    """The TCP connections to a port of this process, on Linux; elsewhere, none are known.

    Args:
        port: the port.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._read: dict[Peer, int] = {}
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY)

    def look(self) -> None:
        """Remember how much has been read of each connection."""
        self._read = {name: read for name, read, _ in self._all()}

    def end_greediest(self, least_bytes: int, still: Callable[[], bool] = lambda: True) -> list[str]:
        """End the connections that sent most since the last look.

        Args:
            least_bytes: connections that sent less go on.
            still: whether there is still a reason to, which is asked after they were measured.

        Returns:
            The addresses of their clients.
        """
        grown = {name: read - self._read.get(name, 0) for name, read, _ in self._all()}
        enough = max(least_bytes, max(grown.values(), default=0) // 2)
        if not still():
            return []
        ended = []
        for name, _, connection in self._all():
            if grown.get(name, 0) >= enough:
                _end(connection)
                ended.append(str(name[0]))
        return ended

    def end_silent(self, idle_seconds: float, most: int) -> int:
        """End connections on which nothing has arrived for a while.

        Args:
            idle_seconds: how long that is.
            most: how many may be open. If there are more, some end one by one: each time, of the client that
                has most connections, the one that is silent for longest. A proxy is one client.

        Returns:
            How many were ended because too many are open.
        """
        if self._spare is not None:  # a descriptor to look with when there is no other
            os.close(self._spare)
            self._spare = None
        heard = [(when, peer) for when, peer, _ in self._heard()]
        crowd = len(heard) - most + most // SPARE_SHARE if len(heard) > most else 0
        crowding = set(by_crowding(heard)[:crowd]) if crowd else set()
        before = time.monotonic() - idle_seconds
        for when, peer, connection in self._heard():
            if when <= before or peer in crowding:
                _end(connection)
        with suppress(OSError):  # perhaps next time
            self._spare = os.open(os.devnull, os.O_RDONLY)
        return crowd

    def _heard(self) -> Iterator[tuple[float, Peer, socket.socket]]:
        """When something last arrived on each connection, its peer, and a copy for this step."""
        for peer, info, connection in self._connected():
            yield time.monotonic() - _SILENT_MS.unpack_from(info)[0] / 1000, peer, connection

    def keep_waiting(self, waiting: int) -> bool:
        """Let the kernel keep about so many new connections until they are accepted, and drop others.

        The system of a client whose connection is dropped tries again after a second.

        Returns:
            Whether a listening socket was found.
        """
        is_found = False
        for one in _sockets(self._port):
            with suppress(OSError):  # it is being closed
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    one.listen(waiting)
                    is_found = True
        return is_found

    def _all(self) -> Iterator[tuple[Peer, int, socket.socket]]:
        """The peer of each connection, how many bytes of it were read, and a copy for this step."""
        for peer, info, connection in self._connected():
            with suppress(OSError, struct.error):
                unread = fcntl.ioctl(connection, termios.FIONREAD, bytes(4))
                yield peer, _RECEIVED.unpack(info)[0] - int.from_bytes(unread, sys.byteorder), connection

    def _connected(self) -> Iterator[tuple[Peer, bytes, socket.socket]]:
        """The peer of each connection, what the kernel knows about it, and a copy for this step."""
        for connection in _sockets(self._port):
            with suppress(OSError):  # it listens, or has ended
                peer = connection.getpeername()
                yield (
                    peer,
                    connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES),
                    connection,
                )


def open_files() -> float:
    """How many files and connections this process has open, which is quick to count.

    Infinity if no further one can be opened, and 0 where the system does not tell.
    """
    try:
        return sum(1 for _ in _DESCRIPTORS.iterdir())
    except OSError as error:
        return math.inf if error.errno == errno.EMFILE else 0


def by_crowding(heard: Iterable[tuple[float, Peer]]) -> list[Peer]:
    """The peers of connections, by when something last arrived, in the order in which they should end."""
    counts: Counter[bytes] = Counter()
    ranked = []
    for when, peer in sorted(heard, key=itemgetter(0), reverse=True):
        client = _client(str(peer[0]))
        counts[client] += 1
        ranked.append((-counts[client], when, peer))
    return [peer for *_, peer in sorted(ranked, key=itemgetter(0, 1))]


def _client(name: str) -> bytes:
    """The address of a client; for IPv6 its first 64 bits, because a client may use all that begin so."""
    address = ip_address(name)
    is_mapped = address.version == 6 and address.ipv4_mapped
    return address.packed if address.version == 4 or is_mapped else address.packed[:8]


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)


def _sockets(port: int) -> Iterator[socket.socket]:
    """Copies of the sockets at a port of this process, each for one step."""
    try:
        descriptors = list(_DESCRIPTORS.iterdir())
    except OSError:  # no Linux, or no descriptor is left to read them with
        return
    for descriptor in descriptors:
        with suppress(OSError), closing(_copy(int(descriptor.name))) as found:
            if found.family in (socket.AF_INET, socket.AF_INET6) and found.getsockname()[1] == port:
                yield found


def _copy(descriptor: int) -> socket.socket:
    """A copy, which stays what it is even if the descriptor is closed and used again meanwhile.

    Raises:
        OSError: it is closed, or no socket.
    """
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
