"""The signals that end a server or make it look at its models again, for a thread that waits for them.

Knows nothing about what is done then.
"""

from __future__ import annotations

import math
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Signals", "hangups_held"]


WAKE = 0
"""Among the numbers of signals: no signal has it."""


@contextmanager
def hangups_held() -> Iterator[None]:
    """Nothing that this thread starts in the block, threads or processes, is ended by SIGHUP: it waits until
    there are `Signals`. Else it would end a server that is starting, and has no handler yet."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Signals:
    """SIGTERM and SIGINT, for a thread that waits for them, and SIGHUP, which meanwhile calls `on_hangup`.

    They arrive as bytes on a socket. A `threading.Event` that a handler sets would miss the signal that comes
    between the decision to wait and the wait: handlers run in the waiting thread, which would be asleep.
    """

    def __init__(self, on_hangup: Callable[[], None]) -> None:
        self._on_hangup = on_hangup
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        signal.set_wakeup_fd(self._sender.fileno())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # see `hangups_held`

    def wake(self) -> None:
        """Let the thread that waits go on, as if its time were over; any thread may call this."""
        self._sender.send(bytes([WAKE]))

    def wait(self, timeout_seconds: float = math.inf) -> bool:
        """Wait for the next signal to stop; whether one came."""
        end = time.monotonic() + timeout_seconds
        while True:
            left = None if timeout_seconds == math.inf else max(0.0, end - time.monotonic())
            came, _, _ = select.select([self._receiver], [], [], left)
            if not came:
                return False
            number = self._receiver.recv(1)[0]
            if number != signal.SIGHUP:
                return number != WAKE
            self._on_hangup()
