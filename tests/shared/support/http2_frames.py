"""Handmade HTTP/2 frames, also frames that no well-behaved library sends (RFC 9113, RFC 7541)."""

from __future__ import annotations

from collections.abc import Iterable

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 2, 3, 4, 6, 8
END_STREAM = ACK = 1
END_HEADERS = 4
MAX_FRAME = 16_384
CANCEL = 8


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return one frame."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def header_block(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return headers as literals, after an update that sets the size of our table to 0, as the server
    requires."""
    return b"\x20" + b"".join(b"\x00" + text_of(name) + text_of(value) for name, value in headers)


def call(path: str, stream: int, headers: Iterable[tuple[bytes, bytes]] = (), flags: int = 0) -> bytes:
    """Return the frame that begins a gRPC call of this path. With END_STREAM, it also ends the call."""
    block = header_block(
        [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path.encode()),
            (b":authority", b"test"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            *headers,
        ]
    )
    return frame(HEADERS, END_HEADERS | flags, stream, block)


def message_start(length: int, *, is_compressed: bool = False) -> bytes:
    """Return the prefix of a gRPC message of this length."""
    return bytes([is_compressed]) + length.to_bytes(4, "big")


def text_of(text: bytes) -> bytes:
    """Return a text as an uncompressed string of a header block: its length, then its bytes."""
    if len(text) < 127:
        return bytes([len(text)]) + text
    length, rest = b"\x7f", len(text) - 127
    while rest > 127:
        length += bytes([rest & 127 | 128])
        rest >>= 7
    return length + bytes([rest]) + text
