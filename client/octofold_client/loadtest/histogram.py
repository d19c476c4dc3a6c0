"""A histogram of latencies whose percentiles are exact to 0.4% for any number of values.

It is log-linear, like HdrHistogram: values with the same leading bits share a bucket. The histograms of
several processes or windows can be added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import ceil

PRECISION_BITS = 9
"""Number of leading bits of a value that are kept, for an error of at most 1 part in 256."""


class Histogram:
    """A histogram of non-negative integers, here microseconds. Count, mean and maximum are exact.

    Gil Tene, HdrHistogram, https://hdrhistogram.github.io/HdrHistogram/
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        """Number of values in each bucket, by the largest value of the bucket."""
        self.count = 0
        self.sum = 0
        self.max = 0

    def record(self, value: int) -> None:
        """Count one value, which must not be negative."""
        shift = max(0, value.bit_length() - PRECISION_BITS)
        self._counts[value | (1 << shift) - 1] += 1
        self.count += 1
        self.sum += value
        self.max = max(self.max, value)

    @property
    def mean(self) -> float | None:
        """The mean; None without values."""
        return self.sum / self.count if self.count else None

    def percentile(self, percent: float) -> int | None:
        """Return the value that `percent`% of the values do not exceed, rounded up by at most 1 part in 256.

        `percent` is above 0 and at most 100. Returns None without values.
        """
        rank = ceil(self.count * percent / 100)
        seen = 0
        for largest, count in self.rows():
            seen += count
            if seen >= rank:
                return min(largest, self.max)
        return None

    def rows(self) -> list[tuple[int, int]]:
        """Return the largest possible value and the count of each non-empty bucket, in ascending order."""
        return sorted(self._counts.items())


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """Return the sum of several histograms."""
    total = Histogram()
    for each in histograms:
        total._counts.update(each._counts)
        total.count += each.count
        total.sum += each.sum
        total.max = max(total.max, each.max)
    return total
