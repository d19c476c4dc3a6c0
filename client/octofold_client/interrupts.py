"""Ctrl-C and the signals that end a program, taken note of now and acted upon between two steps.

Python raises at whatever instruction a signal finds it, also while the gRPC library holds a lock, and closing
the channel would then wait for ever. It knows nothing about what the steps are.
"""

import signal
from types import FrameType, TracebackType
from typing import Self

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DeferredInterrupts:
    """While the block runs, the first signal only takes effect in `check`; a second one does so at once.

    For the main thread, as everything about signals in Python.
    """

    def __enter__(self) -> Self:
        self._noted: signal.Signals | None = None
        self._before = {number: signal.signal(number, self._note) for number in NUMBERS}
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
            self._act(self._noted, None)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._noted is None:
            self._noted = signal.Signals(number)
        else:
            self._act(signal.Signals(number), frame)

    def _act(self, number: signal.Signals, frame: FrameType | None) -> None:
        handler = self._before[number]
        if callable(handler):
            handler(number, frame)
