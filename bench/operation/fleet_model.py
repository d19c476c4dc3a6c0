"""A simulation of a fleet: servers that answer waiting calls in batches, and an autoscaler that adds servers.

Calls arrive independently (Poisson). A balancer that sends each call to a random server leaves each server
with such arrivals of its own, so one server stands for all (`responses`). Over minutes, only the number of
waiting calls matters; `scaled` follows it in small steps.

    python bench/operation/fleet_model.py  # compares the simulation with queueing theory where that is exact
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from math import ceil, factorial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

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


def compared(calls: int = CALLS // 2) -> dict[str, tuple[float, float]]:
    """Mean response times, simulated and exact, of lanes that take a second on average for each call."""
    found = {}
    draws = np.random.default_rng(2)
    for load in (0.3, 0.5, 0.7):
        random = _mean_response(1, load, calls, draws)
        found[f"random times, load {load:.0%} (Erlang)"] = random, 1 / (1 - load)
        constant = _mean_response(1, load, calls, None)
        found[f"constant times, load {load:.0%} (Pollaczek, Khinchine)"] = (
            constant,
            1 + load / (2 * (1 - load)),
        )
    lanes, offered = 4, 3.0
    all_busy = offered**lanes / factorial(lanes) * lanes / (lanes - offered)
    waits = all_busy / (sum(offered**k / factorial(k) for k in range(lanes)) + all_busy)
    exact = 1 + waits / (lanes - offered)
    found["four lanes, load 75% (Erlang's formula C)"] = _mean_response(lanes, offered, calls, draws), exact
    times = arrivals(0.7, calls)
    one_by_one = float((times + responses(1, 1, lambda _: 1.0, times)).mean())
    found["decoding, as a lane with batches of one"] = float(decoded(times, 1.0).mean()), one_by_one
    return found


def _mean_response(lanes: int, rate: float, calls: int, draws: np.random.Generator | None) -> float:
    taken = [1.0] * calls if draws is None else draws.exponential(1.0, calls).tolist()
    seconds = iter(taken)
    times = responses(lanes, 1, lambda _: next(seconds), arrivals(rate, calls))
    return float(times[calls // 10 :].mean())


def saturated(server: Server, calls: int = CALLS // 10) -> dict[str, float]:
    """Calls per second of a server under ten times its capacity, and the highest rate that keeps 50 ms."""
    times = arrivals(10 * server.capacity, calls)
    taken = responses(server.lanes, server.most, server.seconds, times)
    rate = highest_rate(server, 0.05, calls=calls)
    return {
        "capacity": server.capacity,
        "reached": len(times) / float((times + taken).max()),
        "highest": rate,
        "p99_seconds": quantile_at(server, rate, calls=calls),
    }


LOOKS = (
    (0, 10, 10, 0.54, "within the tolerance"),
    (15, 10, 10, 0.61, "ceil(10 * 1.22)"),
    (30, 13, 13, 5.0, "at most twice as many as 30 seconds ago"),
    (45, 20, 20, 5.0, "as before"),
    (60, 20, 20, 5.0, "13 were there 30 seconds ago"),
    (90, 26, 26, 5.0, "not more than the most"),
    (200, 40, 40, 0.1, "a look in the last five minutes wanted more"),
    (500, 40, 40, 0.1, "one fewer a minute"),
    (507, 39, 20, 0.6, "servers that start do not count twice"),
    (515, 39, 39, 0.1, "as before"),
)
"""Looks of an autoscaler: time, servers, those that answer, the metric, and the rule that applies."""


def steps(server: Server) -> dict[str, dict[str, float]]:
    """What becomes of four servers whose lanes shall be 80% busy, under half and under twice their load."""
    found = {}
    for load in (0.5, 2.0):
        course = scaled(
            lambda _, load=load: load * 4 * server.capacity,  # type: ignore[misc]
            server,
            Autoscaler(target=0.8, fewest=4, most=50),
            seconds=400,
            servers=4,
            start_seconds=20,
            longest_queue=1000,
            busy=True,
        )
        last = {"servers": int(course.servers[-1]), "wait": float(course.waits[-1])}
        found[f"{load:g}"] = {**last, "refused": float(course.refused.sum())}
    return found


def main() -> None:
    """Compare, and print what was found."""
    times, server = compared(), Server(lanes=2, fixed=0.004, each=0.001, most=16)
    scaler = Autoscaler(target=0.5, fewest=2, most=40)
    wanted = [scaler.servers(*look[:4]) for look in LOOKS]
    rows = [(what, f"{simulated:.3f}", f"{exact:.3f}") for what, (simulated, exact) in times.items()]
    report(
        "Mean response times in seconds",
        ["what", "simulated", "exact"],
        rows,
        times=times,
        saturated=saturated(server),
        looks=[{"rule": look[-1], "servers": servers} for look, servers in zip(LOOKS, wanted, strict=True)],
        steps=steps(server),
    )


if __name__ == "__main__":
    main()
