"""Computes when an open loop sends its calls.

Arrivals are drawn on a clock that ticks once per expected call, and then converted to seconds. A ramp only
changes the speed of that clock.
"""

from collections.abc import Iterator
from itertools import count
from math import sqrt
from random import Random


def constant(process: int, processes: int) -> Iterator[float]:
    """Ticks at equal distances; the ticks of several processes alternate."""
    first = process / processes
    return (first + number for number in count())


def poisson(generator: Random) -> Iterator[float]:
    """Ticks with independent exponential gaps of mean 1. Several processes together are Poisson again."""
    tick = 0.0
    while True:
        tick += generator.expovariate(1.0)
        yield tick


def in_seconds(ticks: Iterator[float], rate: float, ramp_seconds: float) -> Iterator[float]:
    """Convert ticks to seconds after the start, for a clock that reaches `rate` ticks per second.

    During the ramp, the speed of the clock grows linearly from 0. With Poisson ticks, this is the
    inhomogeneous Poisson process of that rate (Çinlar, Introduction to Stochastic Processes, 1975, 4.7).
    """
    on_ramp = rate * ramp_seconds / 2
    for tick in ticks:
        if tick < on_ramp:
            yield sqrt(2 * tick * ramp_seconds / rate)
        else:
            yield ramp_seconds / 2 + tick / rate
