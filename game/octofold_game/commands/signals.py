"""What a command does when it is told to end, or when its terminal closes: it cleans up first."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn


@contextmanager
def handled(handler: Callable[[int, FrameType | None], Any], *numbers: signal.Signals) -> Iterator[None]:
    """Let `handler` handle these signals while the block runs.

    An ignored signal stays ignored, because nohup uses it to keep a program running without its terminal.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    changed = [number for number in numbers if before[number] not in (signal.SIG_IGN, None)]
    try:
        for number in changed:
            signal.signal(number, handler)
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])


def exit_by_signal(number: int, _frame: FrameType | None) -> NoReturn:
    """Handle a signal: end with its exit code, as a shell gives it."""
    raise SystemExit(128 + number)
