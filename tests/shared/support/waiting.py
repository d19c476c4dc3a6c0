"""Waits for other threads and processes."""

import time
from collections.abc import Callable
from typing import Any, Protocol


class Process(Protocol):
    """A process: `subprocess.Popen` or one of our classes."""

    def poll(self) -> int | None: ...

    def communicate(self) -> Any: ...


def becomes_true(condition: Callable[[], bool], seconds: float = 100.0) -> bool:
    """Wait until `condition` holds. Return whether it held within `seconds`."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


def wait_for(condition: Callable[[], bool], seconds: float = 100.0, process: Process | None = None) -> None:
    """Wait until `condition` holds; fail if it does not within `seconds`, or if `process` ends before."""

    def ends() -> bool:
        assert process is None or process.poll() is None, process.communicate()
        return False

    assert becomes_true(lambda: condition() or ends(), seconds)
