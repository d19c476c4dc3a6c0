"""A simulation of a fleet: servers that answer waiting calls in batches, and an autoscaler that adds servers.

Calls arrive independently (Poisson). A balancer that sends each call to a random server leaves each server
with such arrivals of its own, so one server stands for all (`responses`). Over minutes, only the number of
waiting calls matters; `scaled` follows it in small steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from math import ceil

import numpy as np
from numpy.typing import NDArray

CALLS = 200_000
"""Calls of one simulation; the p99 of so many is known to a few percent."""


@dataclass(frozen=True)
class Server:
    """A server process: it decodes call after call, and its lanes answer them in batches."""

    lanes: int
    fixed: float
    """Seconds of a lane for each batch."""
    each: float
    """Seconds of a lane for each call of a batch."""
    most: int
    """Calls of the largest batch."""
    decoding: float = 0.0
    """Seconds of the process for each call, one after another."""

    def seconds(self, calls: int) -> float:
        """How long a lane works on a batch."""
        return self.fixed + calls * self.each

    @property
    def capacity(self) -> float:
        """Calls per second at full load."""
        lanes = self.lanes * self.most / self.seconds(self.most)
        return min(lanes, 1 / self.decoding) if self.decoding else lanes


def arrivals(rate: float, calls: int = CALLS, seed: int = 1) -> NDArray[np.float64]:
    """Times at which calls arrive; the same seed gives the same times at another scale."""
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, calls))


def decoded(times: NDArray[np.float64], seconds: float) -> NDArray[np.float64]:
    """When each call leaves a process that works on one call at a time, for `seconds` each."""
    numbers = np.arange(len(times))
    left: NDArray[np.float64] = np.maximum.accumulate(times - seconds * numbers) + seconds * (numbers + 1)
    return left


def responses(
    lanes: int, most: int, seconds: Callable[[int], float], times: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How long each call waits and is worked on, first come, first served.

    A lane that is free takes all calls that wait, at most `most`.

    Args:
        lanes: number of lanes.
        most: calls of the largest batch.
        seconds: how long a lane works on a batch of so many calls.
        times: times of arrival, in order.
    """
    taken = np.empty_like(times)
    free = [0.0] * lanes
    heapify(free)
    known = times.tolist()  # a list is faster to search one by one
    first, calls = 0, len(known)
    while first < calls:
        start = max(free[0], known[first])
        end = bisect_right(known, start, first, min(first + most, calls))
        done = start + seconds(end - first)
        heapreplace(free, done)
        taken[first:end] = done - times[first:end]
        first = end
    return taken


def quantile_at(server: Server, rate: float, quantile: float = 0.99, calls: int = CALLS) -> float:
    """A quantile of the response time of a server that gets `rate` calls per second.

    The first tenth does not count, because it finds an empty server.
    """
    come = arrivals(rate, calls)
    left = decoded(come, server.decoding)
    taken = left - come + responses(server.lanes, server.most, server.seconds, left)
    return float(np.quantile(taken[calls // 10 :], quantile))


def highest_rate(server: Server, limit: float, quantile: float = 0.99, calls: int = CALLS) -> float:
    """The highest rate of calls at which a server keeps the limit, to 1%; 0 if no rate does.

    At most 95% of the capacity: closer to it, a queue grows too slowly for this number of calls.
    """
    low, high = 0.0, 0.95 * server.capacity
    while high - low > 0.01 * server.capacity:
        middle = (low + high) / 2
        low, high = (middle, high) if quantile_at(server, middle, quantile, calls) <= limit else (low, middle)
    return low


@dataclass
class Autoscaler:
    """The rule of Kubernetes' HorizontalPodAutoscaler, which KEDA uses, too.

    Every `period` seconds it wants ceil(ready servers * metric / target), unless metric and target differ by
    at most the tolerance. The limits of its `behavior` then apply.
    """

    target: float
    fewest: int
    most: int
    period: float = 15.0
    tolerance: float = 0.1
    up_share: float = 1.0
    """At most this share more servers ..."""
    up_seconds: float = 30.0
    """... than there were so long ago."""
    down_each: int = 1
    """At most so many servers fewer ..."""
    down_seconds: float = 60.0
    """... than there were so long ago."""
    down_window: float = 300.0
    """Fewer servers only if no look in so many seconds wanted more."""
    _wanted: deque[tuple[float, int]] = field(default_factory=deque)
    _had: deque[tuple[float, int]] = field(default_factory=deque)

    def servers(self, now: float, servers: int, ready: int, metric: float) -> int:
        """The number of servers from now on, of which `ready` answer already."""
        ratio = metric / self.target
        wanted = servers if abs(ratio - 1) <= self.tolerance else ceil(ready * ratio)
        wanted = min(self.most, max(self.fewest, wanted))
        self._wanted.append((now, wanted))
        self._had.append((now, servers))
        while self._wanted[0][0] < now - self.down_window:
            self._wanted.popleft()
        while self._had[0][0] < now - max(self.up_seconds, self.down_seconds):
            self._had.popleft()
        if wanted > servers:
            before = min(had for at, had in self._had if at >= now - self.up_seconds)
            return min(wanted, max(servers, ceil(before * (1 + self.up_share))))
        highest = max(wanted for _, wanted in self._wanted)
        before = max(had for at, had in self._had if at >= now - self.down_seconds)
        return min(servers, max(highest, before - self.down_each))


@dataclass(frozen=True)
class Course:
    """What happened after a step of the load, in steps of `STEP` seconds."""

    servers: NDArray[np.int64]
    """`[T]`: servers that are ready."""
    waits: NDArray[np.float64]
    """`[T]`: how long a call that arrives now waits, in seconds."""
    refused: NDArray[np.float64]
    """`[T]`: calls refused, because too many wait already."""
    calls: NDArray[np.float64]
    """`[T]`: calls that arrived."""


STEP = 0.1


def scaled(
    rate: Callable[[float], float],
    server: Server,
    scaler: Autoscaler,
    *,
    seconds: float,
    servers: int,
    start_seconds: float,
    longest_queue: float,
    busy: bool = False,
    lost: Callable[[float], int] = lambda _: 0,
) -> Course:
    """Follow a fleet that the autoscaler changes.

    Args:
        rate: calls per second of all callers, at a time.
        server: each server.
        scaler: looks at the mean wait of the last minute or, if `busy`, at the mean share of busy lanes.
        seconds: how long to follow it.
        servers: servers at the beginning.
        start_seconds: from the wish for a server to its first call.
        longest_queue: calls that may wait at each server; more are refused.
        busy: what the autoscaler looks at.
        lost: how many servers are lost at a time, and start again.
    """
    steps = round(seconds / STEP)
    course = Course(np.zeros(steps, np.int64), *(np.zeros(steps) for _ in range(3)))
    metric = np.zeros(steps)
    starting: list[float] = []
    waiting, ready, next_look = 0.0, servers, 0.0
    for step in range(steps):
        now = step * STEP
        gone = min(ready - 1, lost(now))
        ready -= gone
        starting += [now + start_seconds] * gone
        begun = sum(at <= now for at in starting)
        starting = [at for at in starting if at > now]
        ready += begun
        come, capacity = rate(now) * STEP, ready * server.capacity * STEP
        room = ready * longest_queue
        answered = min(waiting + come, capacity)
        waiting += come - answered
        refused = max(0.0, waiting - room)
        waiting -= refused
        course.servers[step], course.calls[step], course.refused[step] = ready, come, refused
        course.waits[step] = waiting / (ready * server.capacity)
        metric[step] = answered / capacity if busy else course.waits[step]
        if now >= next_look:
            next_look += scaler.period
            last = metric[max(0, step - round(60 / STEP)) : step + 1]
            wanted = scaler.servers(now, ready + len(starting), ready, float(last.mean()))
            more = wanted - ready - len(starting)
            starting += [now + start_seconds] * max(0, more)
            ready += min(0, more)
    return course
