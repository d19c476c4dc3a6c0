"""A histogram of latencies that keeps percentiles to a third of a percent, however many there are.

Log-linear, like HdrHistogram: values that share their leading bits share a bucket. Histograms of several
processes or windows add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import Any

PRECISION_BITS = 9
"""A value is known by this many leading bits, and so to 1 part in 256 at worst."""


class Histogram:
    """Counts of integers, here microseconds. Count, mean and largest are exact.

    Gil Tene, HdrHistogram, https://hdrhistogram.github.io/HdrHistogram/
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        """By the largest value of a bucket."""
        self.count = 0
        self.sum = 0
        self.max = 0

    def record(self, value: int) -> None:
        """Takes in one value. Raises `ValueError` for a negative one."""
        if value < 0:
            raise ValueError(f"{value} is negative")
        shift = max(0, value.bit_length() - PRECISION_BITS)
        self._counts[value | (1 << shift) - 1] += 1
        self.count += 1
        self.sum += value
        self.max = max(self.max, value)

    def add(self, other: Histogram) -> None:
        """Takes in all values of another histogram."""
        self._counts.update(other._counts)
        self.count += other.count
        self.sum += other.sum
        self.max = max(self.max, other.max)

    @property
    def mean(self) -> float | None:
        """None without values."""
        return self.sum / self.count if self.count else None

    def percentile(self, percent: float) -> int | None:
        """A value that at least `percent` (above 0, up to 100) of the values do not exceed: the smallest
        such, or up to 1 part in 256 more. None without values.
        """
        rank = ceil(self.count * percent / 100)
        seen = 0
        for largest, count in self.rows():
            seen += count
            if seen >= rank:
                return min(largest, self.max)
        return None

    def rows(self) -> list[tuple[int, int]]:
        """The buckets that hold something: the largest value that belongs there, and how many do."""
        return sorted(self._counts.items())

    def to_json(self) -> dict[str, Any]:
        return {"count": self.count, "sum": self.sum, "max": self.max, "buckets": self.rows()}


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """All values of several."""
    total = Histogram()
    for histogram in histograms:
        total.add(histogram)
    return total
