"""Ends TCP connections of this process that are silent or too many, whichever library opened them."""

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
"""The position of the milliseconds since the last arrival in the kernel's `tcp_info`."""

SPARE_SHARE = 16
"""If too many connections are open, an additional sixteenth of the allowed number is ended."""

Peer = tuple[object, ...]
"""The address and the port of a client, as `socket.getpeername` returns them."""


class Connections:
    """The TCP connections to a port of this process. On systems other than Linux, the list is empty.

    Args:
        port: the port.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY)

    def end_silent(self, idle_seconds: float, most: int) -> int:
        """End silent connections, and connections beyond the maximum number.

        Args:
            idle_seconds: time without arriving data after which a connection counts as silent.
            most: maximum number of open connections. Beyond it, connections end one by one: each time, the
                connection that is silent for longest among those of the client with most. A proxy is one
                client.

        Returns:
            Number of connections that were ended because too many are open.
        """
        if self._spare is not None:  # a spare descriptor for listing when no other is free
            os.close(self._spare)
            self._spare = None
        heard = [(when, peer) for when, peer, _ in self._heard()]
        crowd = len(heard) - most + most // SPARE_SHARE if len(heard) > most else 0
        crowding = set(by_crowding(heard)[:crowd]) if crowd else set()
        before = time.monotonic() - idle_seconds
        for when, peer, connection in self._heard():
            if when <= before or peer in crowding:
                with suppress(OSError):  # the connection has ended meanwhile
                    connection.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):  # try again next time
            self._spare = os.open(os.devnull, os.O_RDONLY)
        return crowd

    def _heard(self) -> Iterator[tuple[float, Peer, socket.socket]]:
        """Yield for each connection the time of its last arrival, its peer, and a copy of its socket."""
        for connection in self._sockets():
            with suppress(OSError):  # a listening socket, or an ended connection
                peer = connection.getpeername()
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
                yield time.monotonic() - _SILENT_MS.unpack_from(info)[0] / 1000, peer, connection

    def _sockets(self) -> Iterator[socket.socket]:
        """Yield copies of the sockets at the port; each copy is closed after its step."""
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
    """Return the number of open files and connections of this process, which is quick to count.

    The result is infinity if no more can be opened, and 0 if the system does not report the number.
    """
    try:
        return sum(1 for _ in _DESCRIPTORS.iterdir())
    except OSError as error:
        return math.inf if error.errno == errno.EMFILE else 0


def by_crowding(heard: Iterable[tuple[float, Peer]]) -> list[Peer]:
    """Return the peers of connections in the order in which they should end.

    Args:
        heard: for each connection, the time when something last arrived, and its peer.
    """
    counts: Counter[bytes] = Counter()
    ranked = []
    for when, peer in sorted(heard, key=itemgetter(0), reverse=True):
        client = _client(str(peer[0]))
        counts[client] += 1
        ranked.append((-counts[client], when, peer))
    return [peer for *_, peer in sorted(ranked, key=itemgetter(0, 1))]


def _client(name: str) -> bytes:
    """Return the address of a client; for IPv6 its first 64 bits, because one client may own them all."""
    address = ip_address(name)
    is_mapped = address.version == 6 and address.ipv4_mapped
    return address.packed if address.version == 4 or is_mapped else address.packed[:8]


def _copy(descriptor: int) -> socket.socket:
    """Return a copy of a socket, which stays valid if the descriptor is closed and reused meanwhile.

    Raises:
        OSError: the descriptor is closed, or is not a socket.
    """
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
