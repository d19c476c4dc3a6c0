"""When an open loop sends its calls, whatever becomes of earlier ones.

Arrivals are drawn on a clock that ticks once per expected call, and then converted to seconds: a ramp only
changes how fast that clock goes.
"""

from collections.abc import Iterator
from itertools import count
from math import sqrt
from random import Random


def constant(process: int, processes: int) -> Iterator[float]:
    """Ticks at equal distances; those of several processes fall between each other's."""
    first = process / processes
    return (first + number for number in count())


def poisson(generator: Random) -> Iterator[float]:
    """Ticks with independent exponential gaps of mean 1. Those of several processes are Poisson again."""
    tick = 0.0
    while True:
        tick += generator.expovariate(1.0)
        yield tick


def in_seconds(ticks: Iterator[float], rate: float, ramp_seconds: float) -> Iterator[float]:
    """The seconds after the start at which ticks fall when the clock goes at `rate` a second.

    While the ramp lasts, its speed grows from 0 in proportion to time. For Poisson ticks this makes the
    inhomogeneous Poisson process of that rate (Çinlar, Introduction to Stochastic Processes, 1975, 4.7).
    """
    on_ramp = rate * ramp_seconds / 2
    for tick in ticks:
        if tick < on_ramp:
            yield sqrt(2 * tick * ramp_seconds / rate)
        else:
            yield ramp_seconds / 2 + tick / rate
