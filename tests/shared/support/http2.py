"""A client that sends single HTTP/2 frames, also frames that gRPC's own client never sends."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType

from support.http2_frames import (
    ACK,
    DATA,
    END_STREAM,
    HEADERS,
    MAX_FRAME,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    call,
    frame,
)

FIRST_WINDOW = 65_535


class RawConnection:
    """One connection; a thread reads what the server sends, and answers its pings and settings.

    Attributes:
        ended: the streams that the server has ended with trailers, and when.
        reset: the streams that it has reset.
        replies: bytes of headers and trailers, by stream, not decoded.
        closed: the server has closed the connection.
        pings: how many the server has sent.
    """

    def __init__(self, target: str, *, stream_window: int = FIRST_WINDOW) -> None:
        host, _, port = target.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self.ended: dict[int, float] = {}
        self.reset: set[int] = set()
        self.replies: dict[int, bytes] = defaultdict(bytes)
        self.closed = threading.Event()
        self.pings = 0
        self._next_stream = 1
        self._first_window = FIRST_WINDOW
        self._windows: dict[int, int] = {0: FIRST_WINDOW}
        self._changed = threading.Condition()  # guards all of the above
        self._sending = threading.Lock()
        settings = struct.pack(">HI", 4, stream_window)
        self.write(PREFACE + frame(SETTINGS, 0, 0, settings))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    @property
    def begun(self) -> int:
        """Number of streams so far."""
        return self._next_stream // 2

    def close(self) -> None:
        """Close the connection without a GOAWAY frame."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._socket.close()

    def write(self, sent: bytes) -> None:
        """Send these bytes as they are."""
        with self._sending:
            self._socket.sendall(sent)

    def begin(self, path: str, headers: Iterable[tuple[bytes, bytes]] = (), flags: int = 0) -> int:
        """Send only the headers of a call, and return its stream."""
        stream = self.new_stream()
        self.write(call(path, stream, headers, flags))
        return stream

    def new_stream(self) -> int:
        """Return the next stream's number."""
        with self._changed:
            stream = self._next_stream
            self._next_stream += 2
            self._windows[stream] = self._first_window
        return stream

    def send(self, stream: int, data: bytes, *, seconds: float = 60.0, end: bool = False) -> int:
        """Send as much of a call's data as the server makes room for within this time; return the number of
        bytes."""
        done, give_up = 0, time.monotonic() + seconds
        while done < len(data):
            with self._changed:
                room = min(self._windows[0], self._windows[stream], MAX_FRAME, len(data) - done)
                if room <= 0 or self._is_over(stream):
                    left = give_up - time.monotonic()
                    if left <= 0 or self._is_over(stream):
                        return done
                    self._changed.wait(left)
                    continue
                self._windows[0] -= room
                self._windows[stream] -= room
            last = end and done + room == len(data)
            try:
                self.write(frame(DATA, END_STREAM if last else 0, stream, data[done : done + room]))
            except OSError:
                return done
            done += room
        return done

    def wait_for_ends(self, count: int, seconds: float = 60.0) -> bool:
        """Wait until the server has ended `count` streams in any way; return whether it has."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.ended) + len(self.reset) >= count, seconds)

    def _is_over(self, stream: int) -> bool:
        return stream in self.ended or stream in self.reset or self.closed.is_set()

    def _read(self) -> None:
        try:
            while len(head := self._exactly(9)) == 9:
                length = int.from_bytes(head[:3], "big")
                kind, flags, stream = struct.unpack(">BBI", head[3:])
                self._take(kind, flags, stream, self._exactly(length))
        except OSError:
            pass
        finally:
            self.closed.set()
            with self._changed:
                self._changed.notify_all()

    def _exactly(self, count: int) -> bytes:
        received = b""
        while len(received) < count:
            self._socket.settimeout(None)
            part = self._socket.recv(count - len(received))
            if not part:
                return received
            received += part
        return received

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            self._take_settings(payload)
            self.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.pings += 1
            self.write(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            with self._changed:
                self._windows[stream] = self._windows.get(stream, 0) + struct.unpack(">I", payload)[0]
                self._changed.notify_all()
        elif kind in (HEADERS, RST_STREAM, DATA):
            with self._changed:
                if kind == HEADERS:
                    self.replies[stream] += payload
                if kind == RST_STREAM and stream not in self.ended:
                    self.reset.add(stream)
                elif kind != RST_STREAM and flags & END_STREAM:
                    self.ended[stream] = time.monotonic()
                self._changed.notify_all()

    def _take_settings(self, payload: bytes) -> None:
        for at in range(0, len(payload), 6):
            identifier, value = struct.unpack(">HI", payload[at : at + 6])
            if identifier == 4:
                with self._changed:
                    for stream in self._windows:
                        if stream:
                            self._windows[stream] += value - self._first_window
                    self._first_window = value
                    self._changed.notify_all()
