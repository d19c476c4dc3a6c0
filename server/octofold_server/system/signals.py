"""Delivers signals to a waiting thread: signals that stop the server or reload its models."""

from __future__ import annotations

import math
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WAKE = 0
"""The byte that `Signals.wake` sends. No signal has this number."""


def hold_hangups() -> None:
    """Block SIGHUP until `Signals` handles it, also in threads and processes that start later.

    Without this, SIGHUP would end a server that is starting and has no handler yet. Threads that already run,
    such as threads of native libraries, still receive SIGHUP. The handler then raises SIGHUP again in the
    main thread, where it is blocked. Call this function in the main thread.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    signal.signal(signal.SIGHUP, lambda number, _: signal.raise_signal(number))  # runs in the main thread


def release_hangups() -> None:
    """Undo `hold_hangups`, so that SIGHUP ends this process again."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


@contextmanager
def hangups_held() -> Iterator[None]:
    """Block SIGHUP in processes that start within this context, until their `Signals` handles it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Signals:
    """Delivers SIGTERM and SIGINT to a thread that waits for them; SIGHUP calls `on_hangup`.

    The signals arrive as bytes on a socket. With a `threading.Event` that a handler sets, a signal could be
    missed: Python runs handlers in the waiting thread, and a signal that comes just before the thread falls
    asleep would not wake it.
    """

    def __init__(self, on_hangup: Callable[[], None]) -> None:
        self._on_hangup = on_hangup
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        signal.set_wakeup_fd(self._sender.fileno())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # `hold_hangups` has blocked it

    def wake(self) -> None:
        """Wake the waiting thread as if its timeout had passed; any thread may call this."""
        self._sender.send(bytes([WAKE]))

    def wait(self, timeout_seconds: float = math.inf) -> bool:
        """Wait for SIGTERM or SIGINT, and return whether one came in time."""
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
