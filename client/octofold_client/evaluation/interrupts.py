"""Delays Ctrl-C and other signals that end a program, until the program checks for them between two steps.

Without the delay, Python would raise an exception at any instruction, even while gRPC holds a lock. Closing
the channel would then wait forever.
"""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DeferredInterrupts:
    """A context manager that delays signals until `check` is called or the block ends. Call `check` often.

    If the block raises an exception, delayed signals are dropped. Signals without a Python handler are not
    delayed. Enter the block only in the main thread, because no other thread can set signal handlers.
    """

    def __enter__(self) -> Self:
        self._noted: signal.Signals | None = None
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], Any]] = {}
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                self._before[number] = handler
                signal.signal(number, self._note)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None:
            self.check()

    def check(self) -> None:
        """If signals have arrived, run the handler of the last one."""
        if self._noted is not None:
            self._before[self._noted](self._noted, None)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._noted = signal.Signals(number)
