"""Ports on which a server comes later, or never."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that the kernel gives to nobody else within the block.

    Nobody answers on it until a server that is told its number listens, which the socket that holds the port
    allows. Tests at work beside this one would soon be given a port that was free and is not held.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
