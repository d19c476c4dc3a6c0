"""Ends TCP connections of this process that are silent, or beyond a maximum number.

It finds the connections in the list of open files, whichever library accepted them.
"""

from __future__ import annotations

import errno
import math
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from ipaddress import ip_address
from operator import itemgetter
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")
_INFO_BYTES = 136
_SILENT_MS = struct.Struct("=52xI")
"""Layout of the kernel's `tcp_info` up to `tcpi_last_data_recv`: milliseconds since data last arrived."""

SPARE_SHARE = 16
"""Divisor of the maximum: if more connections are open, the server ends some until 15/16 of the maximum are
left."""

Peer = tuple[object, ...]
"""The address and the port of a client, as `socket.getpeername` returns them."""


class Connections:
    """The TCP connections to a port of this process. On systems other than Linux, none are found."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY)

    def end_silent(self, idle_seconds: float, max_connections: int) -> int:
        """End silent connections, and connections beyond the maximum number.

        Args:
            idle_seconds: time without arriving data after which a connection counts as silent.
            max_connections: maximum number of open connections. If there are more, the client with the most
                connections loses the one that has been silent for longest, until 15/16 of the maximum are
                left. All callers behind a proxy count as one client.

        Returns:
            Number of connections that were ended because too many were open.
        """
        if self._spare is not None:  # listing needs a descriptor, and no other may be free
            os.close(self._spare)
            self._spare = None
        arrivals = [(when, peer) for when, peer, _ in self._last_arrivals()]
        too_many = len(arrivals) - max_connections
        excess = too_many + max_connections // SPARE_SHARE if too_many > 0 else 0
        excessive = set(in_closing_order(arrivals)[:excess]) if excess else set()
        before = time.monotonic() - idle_seconds
        for when, peer, connection in self._last_arrivals():
            if when <= before or peer in excessive:
                with suppress(OSError):  # the connection has ended meanwhile
                    connection.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):  # the next call tries again
            self._spare = os.open(os.devnull, os.O_RDONLY)
        return excess

    def _last_arrivals(self) -> Iterator[tuple[float, Peer, socket.socket]]:
        """Yield, for each connection, the time when data last arrived, the peer, and a copy of the socket."""
        for connection in self._sockets():
            with suppress(OSError):  # a listening socket, or an ended connection
                peer = connection.getpeername()
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
                yield time.monotonic() - _SILENT_MS.unpack_from(info)[0] / 1000, peer, connection

    def _sockets(self) -> Iterator[socket.socket]:
        """Yield copies of the sockets at the port; each copy is closed when the next one is requested."""
        try:
            descriptors = list(_DESCRIPTORS.iterdir())
        except OSError:  # not Linux, or no descriptor is free for the listing
            return
        for descriptor in descriptors:
            with suppress(OSError), closing(_copy(int(descriptor.name))) as found:
                is_tcp = found.family in (socket.AF_INET, socket.AF_INET6)
                if is_tcp and found.getsockname()[1] == self._port:
                    yield found


def open_files() -> float:
    """Return the number of open files and connections of this process.

    The result is infinity if no more files can be opened, and 0 if the system does not report the number.
    """
    try:
        return sum(1 for _ in _DESCRIPTORS.iterdir())
    except OSError as error:
        return math.inf if error.errno == errno.EMFILE else 0


def in_closing_order(arrivals: Iterable[tuple[float, Peer]]) -> list[Peer]:
    """Return the peers of connections in the order in which the connections should be closed.

    The client with the most connections comes first, with the connection that has been silent for longest.
    `arrivals` has, for each connection, the time when data last arrived, and the peer.
    """
    counts: Counter[bytes] = Counter()
    ranked = []
    for when, peer in sorted(arrivals, key=itemgetter(0), reverse=True):
        client = _client(str(peer[0]))
        counts[client] += 1
        ranked.append((-counts[client], when, peer))
    return [peer for *_, peer in sorted(ranked, key=itemgetter(0, 1))]


def _client(name: str) -> bytes:
    """Return the bytes that identify a client: an IPv4 address, or the first 64 bits of an IPv6 address.

    One client may own all IPv6 addresses that begin with the same 64 bits.
    """
    address = ip_address(name)
    is_mapped = address.version == 6 and address.ipv4_mapped
    return address.packed if address.version == 4 or is_mapped else address.packed[:8]


def _copy(descriptor: int) -> socket.socket:
    """Return a copy of a socket. The copy stays valid if the original is closed and its descriptor reused.

    Raises:
        OSError: the descriptor is closed, or is not a socket.
    """
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
