"""HTTP/2 as no well-behaved library sends it: frames that are made by hand (RFC 9113, RFC 7541)."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import suppress

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS = 0, 1, 3, 4
END_STREAM, END_HEADERS = 1, 4
MAX_FRAME = 16_384


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def header_block(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Headers as literals, without compression."""
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers)


def call(
    stream: int, method: str, headers: Iterable[tuple[bytes, bytes]] = (), flags: int = END_STREAM
) -> bytes:
    """The frame that begins and ends a gRPC call of this method, such as "package.Service/Method"."""
    block = header_block(
        [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", f"/{method}".encode()),
            (b":authority", b"test"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            *headers,
        ]
    )
    return frame(HEADERS, END_HEADERS | flags, stream, block)


def call_with_message(stream: int, method: str, compressed: bytes) -> list[bytes]:
    """The frames of a gRPC call of one message, which is compressed with gzip."""
    body = b"\x01" + len(compressed).to_bytes(4, "big") + compressed
    chunks = [body[first : first + MAX_FRAME] for first in range(0, len(body), MAX_FRAME)]
    return [
        call(stream, method, [(b"grpc-encoding", b"gzip")], flags=0),
        *(frame(DATA, 0, stream, chunk) for chunk in chunks[:-1]),
        frame(DATA, END_STREAM, stream, chunks[-1]),
    ]


def send(target: str, frames: Iterable[bytes], answered: int) -> None:
    """Send frames on a new connection, and return once that many of its streams have ended, or it has."""
    host, _, port = target.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection, suppress(ConnectionError):
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + b"".join(frames))
        received = b""
        while answered > 0 and (chunk := connection.recv(65_536)):
            received += chunk
            while len(received) >= 9 and len(received) >= 9 + int.from_bytes(received[:3], "big"):
                length, kind, flags = int.from_bytes(received[:3], "big"), received[3], received[4]
                if kind == SETTINGS and not flags & 1:
                    connection.sendall(frame(SETTINGS, 1, 0))
                answered -= kind == RESET or (kind in (DATA, HEADERS) and flags & END_STREAM != 0)
                received = received[9 + length :]


def _text(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes([len(text)]) + text
    length, rest = b"\x7f", len(text) - 127
    while rest > 127:
        length += bytes([rest & 127 | 128])
        rest >>= 7
    return length + bytes([rest]) + text
