"""A name server: one name whose addresses change when the program says so.

gRPC asks it by a target such as dns://127.0.0.1:PORT/fleet.test:50051. Its answers may not be kept.
"""

from __future__ import annotations

import socket
import struct
import threading
from typing import Self

_A, _IN = 1, 1
_IS_ANSWER, _NO_SUCH_NAME = 0x8400, 3
_TO_THE_QUESTION = 0xC00C
"""Stands for the name of the question, which is at byte 12."""


class Names:
    """Answers queries for IPv4 addresses over UDP on 127.0.0.1; a context manager.

    Attributes:
        addresses: the addresses by name; change them at any time.
        port: the port of the name server.
    """

    def __init__(self) -> None:
        self.addresses: dict[str, list[str]] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def target(self, name: str, port: int) -> str:
        """The target of the servers on a port of the name's addresses."""
        return f"dns://127.0.0.1:{self.port}/{name}:{port}"

    def __enter__(self) -> Self:
        """Start to answer."""
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            query, peer = self._socket.recvfrom(4096)
            if not query:
                return
            self._socket.sendto(self._answer(query), peer)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while length := query[at]:
            labels.append(query[at + 1 : at + 1 + length].decode())
            at += 1 + length
        kind = int.from_bytes(query[at + 1 : at + 3], "big")
        known = self.addresses.get(".".join(labels))
        found = known if known is not None and kind == _A else []
        flags = _IS_ANSWER | (_NO_SUCH_NAME if known is None else 0)
        head = query[:2] + struct.pack("!HHHHH", flags, 1, len(found), 0, 0)
        records = (
            struct.pack("!HHHIH", _TO_THE_QUESTION, _A, _IN, 0, 4) + socket.inet_aton(address)
            for address in found
        )
        return head + query[12 : at + 5] + b"".join(records)
