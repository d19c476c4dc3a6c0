"""Decides how many replicas a service needs, by the time that calls wait in their queues."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

UP_SECONDS, DOWN_SECONDS = 10.0, 60.0
"""Calls must wait long for this time before a replica is added, or briefly before one is removed."""
DOWN_SHARE = 0.25
"""A replica is removed when calls wait less than this share of the limit. In between, nothing changes."""


@dataclass(frozen=True)
class QueueTime:
    """The calls that a server has answered, and the time that they spent in its queue."""

    calls: int
    seconds: float


@dataclass(frozen=True)
class _Window:
    end: float
    calls: int
    seconds: float


class Scaling:
    """Chooses a number of replicas between `least` and `most`.

    Args:
        least: minimum.
        most: maximum.
        limit_seconds: average time in the queue from which another replica is added.
    """

    def __init__(self, least: int, most: int, limit_seconds: float) -> None:
        self.least, self.most = least, most
        self._limit_seconds = limit_seconds
        self._last: Mapping[str, QueueTime] = {}
        self._windows: deque[_Window] = deque()
        self._since: float | None = None

    def wanted(self, now: float, running: int, counters: Mapping[str, QueueTime]) -> int:
        """The number of replicas to run from now on.

        Args:
            now: the time in seconds.
            running: replicas that run now.
            counters: the counters of each of them, since its start.
        """
        self._note(now, counters)
        if self._since is None:
            self._since = now
        if self._mean(now - UP_SECONDS) > self._limit_seconds and now - self._since >= UP_SECONDS:
            return self._changed(running, running + 1)
        briefly = self._mean(now - DOWN_SECONDS) < DOWN_SHARE * self._limit_seconds
        if briefly and now - self._since >= DOWN_SECONDS:
            return self._changed(running, running - 1)
        return self._within(running)

    def _changed(self, running: int, wanted: int) -> int:
        allowed = self._within(wanted)
        if allowed != running:  # what was measured so far was measured with another number of replicas
            self._windows.clear()
            self._since = None
        return allowed

    def _within(self, number: int) -> int:
        return min(max(number, self.least), self.most)

    def _note(self, now: float, counters: Mapping[str, QueueTime]) -> None:
        # What a new replica answered before the first look does not matter.
        pairs = [(self._last[name], new) for name, new in counters.items() if name in self._last]
        calls = sum(new.calls - old.calls for old, new in pairs)
        seconds = sum(new.seconds - old.seconds for old, new in pairs)
        self._last = dict(counters)
        self._windows.append(_Window(now, calls, seconds))
        while self._windows and self._windows[0].end < now - DOWN_SECONDS:
            self._windows.popleft()

    def _mean(self, since: float) -> float:
        """Average time in the queue of the calls since then, in seconds; 0 without calls."""
        recent = [window for window in self._windows if window.end >= since]
        calls = sum(window.calls for window in recent)
        return sum(window.seconds for window in recent) / calls if calls else 0.0
