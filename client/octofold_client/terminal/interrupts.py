"""Ctrl-C and the signals that end a program: noted at once, acted upon between two steps.

Otherwise Python would raise at any instruction, even while the gRPC library holds a lock, and closing the
channel would then wait for ever.
"""

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DeferredInterrupts:
    """While the block runs, signals only take effect in `check`, so call it often.

    Signals that are ignored stay ignored, and those that end the process outright still do. For the main
    thread, as everything about signals in Python.
    """

    def __enter__(self) -> Self:
        self._noted: signal.Signals | None = None
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], Any]] = {}
        for number in NUMBERS:
            handler = signal.getsignal(number)
            if callable(handler):
                self._before[number] = handler
                signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None:
            self.check()

    def check(self) -> None:
        """Does what the signal would have done, had it come in right here."""
        if self._noted is not None:
            self._before[self._noted](self._noted, None)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._noted = signal.Signals(number)
