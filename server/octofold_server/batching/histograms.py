"""Histograms of times and of batches: their buckets, and a traced example for each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

SECONDS_BOUNDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Upper bounds of the buckets for times, in seconds."""

BATCH_BOUNDS = tuple(float(1 << power) for power in range(13))
"""Upper bounds of the buckets for the number of boards in a batch."""


class Exemplar(NamedTuple):
    """An observation whose trace shows more about it."""

    trace_id: str
    value: float
    at: float
    """Unix time in seconds."""


NO_EXEMPLARS: Mapping[int, Exemplar] = MappingProxyType({})


class Histogram(NamedTuple):
    """Observations by bucket; the additional last count is for values above all bounds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float
    exemplars: Mapping[int, Exemplar] = NO_EXEMPLARS
    """The newest traced observation of each bucket that has one."""


@dataclass(slots=True)
class Buckets:
    """The observations of a histogram while they come."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    sum: float = 0.0
    exemplars: dict[int, Exemplar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count an observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def exemplify(self, exemplar: Exemplar) -> None:
        """Keep an observation as the example of its bucket."""
        self.exemplars[bisect_left(self.bounds, exemplar.value)] = exemplar

    def histogram(self) -> Histogram:
        """A copy of the observations so far."""
        return Histogram(self.bounds, tuple(self.counts), self.sum, dict(self.exemplars))
