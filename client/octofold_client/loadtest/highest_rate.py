"""Searches for the highest rate of calls that keeps a limit."""

from collections.abc import Generator

PRECISION = 1.05
"""The search ends when the lowest rate that failed is at most this many times the highest that did not."""
FARTHEST = 1024
"""The search gives up at this fraction of the first rate."""


def highest_rate(first: float) -> Generator[float, bool, float | None]:
    """Yield rates to try; the caller sends whether each rate kept the limit.

    The search doubles or halves the rate, starting at `first`, until one rate kept the limit and one failed.
    Then it tries their geometric mean again and again. Returns the highest rate that kept the limit, or None.
    """
    held: float | None = None
    failed: float | None = None
    rate = first
    while held is None or failed is None or failed > PRECISION * held:
        if (yield rate):
            held = rate
        else:
            failed = rate
            if held is None and rate * FARTHEST <= first:
                return None
        if held is None:
            rate /= 2
        elif failed is None:
            rate *= 2
        else:
            rate = (held * failed) ** 0.5
    return held
