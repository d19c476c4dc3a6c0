"""Lets a command clean up after a signal, or when its terminal closes."""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

_IGNORED_SECONDS = 5.0
"""Seconds after a signal during which further signals are ignored. When a terminal closes, it and its shell
each send a SIGHUP."""


@contextmanager
def handling(handler: Callable[[int, FrameType | None], Any], *numbers: signal.Signals) -> Iterator[None]:
    """Let `handler` handle the signals `numbers` during the block. Has no effect outside the main thread.

    After a signal, further signals are ignored for `_IGNORED_SECONDS`, so that they do not disturb the
    clean-up. A signal that the program ignores stays ignored, because nohup uses this to keep a program
    running without its terminal.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    changed = [number for number in numbers if before[number] not in (signal.SIG_IGN, None)]
    if threading.current_thread() is not threading.main_thread():
        changed = []
    handled_at = -math.inf

    def handle_first(number: int, frame: FrameType | None) -> None:
        nonlocal handled_at
        _leave_closed_terminal()
        if time.monotonic() - handled_at > _IGNORED_SECONDS:
            handled_at = time.monotonic()
            handler(number, frame)

    try:
        for number in changed:
            signal.signal(number, handle_first)
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])


def _leave_closed_terminal() -> None:
    """Discard output after the terminal has closed, because a write error would stop the clean-up."""
    for descriptor, stream in ((1, sys.__stdout__), (2, sys.__stderr__)):
        if stream is None:  # closed when the program began: the descriptor may belong to another file
            continue
        with suppress(OSError):
            readers = select.poll()
            readers.register(descriptor, 0)
            if any(state & (select.POLLHUP | select.POLLERR) for _, state in readers.poll(0)):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)


def exit_by_signal(number: int, _frame: FrameType | None) -> NoReturn:
    """Handle a signal by exiting with 128 + `number`, the code that shells use."""
    raise SystemExit(128 + number)
