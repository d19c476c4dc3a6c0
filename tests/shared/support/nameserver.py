"""A name server for one name, whose addresses a test changes: the DNS of a headless Service."""

from __future__ import annotations

import ipaddress
import socket
import threading
from types import TracebackType
from typing import Self

HEADER_BYTES = 12
IS_ANSWER = 0x8580  # a response that is authoritative and offers recursion
TYPE_A = 1
A_RECORD = bytes([0xC0, HEADER_BYTES, 0, TYPE_A, 0, 1, 0, 0, 0, 0, 0, 4])
"""The name of the question, its type and class, to be kept for 0 seconds, 4 bytes."""


class NameServer:
    """Answers over UDP on 127.0.0.1; a context manager.

    Whatever name is asked for has `addresses`, and no IPv6 address.
    """

    def __init__(self) -> None:
        self.addresses: tuple[str, ...] = ()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, name="name server", daemon=True)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, asker = self._socket.recvfrom(512)
            if not query:
                return
            self._socket.sendto(self._answer(query), asker)

    def _answer(self, query: bytes) -> bytes:
        end = query.index(0, HEADER_BYTES) + 5  # behind the name: a zero, type and class
        question = query[HEADER_BYTES:end]
        asks_for_a = int.from_bytes(question[-4:-2]) == TYPE_A
        found = [ipaddress.IPv4Address(address).packed for address in self.addresses] if asks_for_a else []
        counts = b"".join(n.to_bytes(2) for n in (1, len(found), 0, 0))
        records = b"".join(A_RECORD + address for address in found)
        return query[:2] + IS_ANSWER.to_bytes(2) + counts + question + records
