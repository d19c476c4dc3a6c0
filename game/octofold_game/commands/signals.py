"""What a command does when it is told to end, or when its terminal closes: it cleans up first."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn


@contextmanager
def handled(handler: Callable[[int, FrameType | None], Any], *numbers: signal.Signals) -> Iterator[None]:
    """Let `handler` handle the first of these signals while the block runs, but only in the main thread.

    Later ones do not disturb what cleans up: a shell and its terminal each send a SIGHUP. An ignored signal
    stays ignored, because nohup uses it to keep a program running without its terminal.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    changed = [number for number in numbers if before[number] not in (signal.SIG_IGN, None)]
    if threading.current_thread() is not threading.main_thread():
        changed = []

    def handle_first(number: int, frame: FrameType | None) -> None:
        for each in changed:
            signal.signal(each, signal.SIG_IGN)
        _leave_closed_terminal()
        handler(number, frame)

    try:
        for number in changed:
            signal.signal(number, handle_first)
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])


def _leave_closed_terminal() -> None:
    """Let words for a terminal that has closed go nowhere: an error would take the place of the clean-up."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)


def exit_by_signal(number: int, _frame: FrameType | None) -> NoReturn:
    """Handle a signal: end with its exit code, as a shell gives it."""
    raise SystemExit(128 + number)
