"""An event loop with its own clock, on which a load test of minutes takes no time and has exact figures."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_client.loadtest.forms import Asker
from octofold_client.loadtest.loads import Counts, Load, Schedule, Share, Windows, generate


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Time passes only where everything waits: then it is at once that of the next timer."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "no timer is set, so nothing would ever happen"
        self._loop.now += max(0.0, timeout)
        return super().select(0)


def simulated(
    make_asker: Callable[[], Asker], boards: NDArray[np.uint8]
) -> Callable[[Load, float, float], Windows]:
    """Makes loads as `Workers.windows` does, each on a clock of its own that begins at 0."""

    def make(load: Load, ramp_seconds: float, window_seconds: float) -> Generator[Counts, None, None]:
        windows: asyncio.Queue[Counts] = asyncio.Queue()
        schedule = Schedule(0.0, ramp_seconds, window_seconds)

        async def begin() -> asyncio.Task[None]:
            share = Share(load, boards_a_call=4)
            return asyncio.create_task(generate(make_asker(), boards, share, schedule, windows.put_nowait))

        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            load_task = runner.run(begin())
            while True:
                yield runner.run(windows.get())
                assert not load_task.done()

    return make
