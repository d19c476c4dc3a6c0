"""The search for the highest rate that keeps a limit.

It is a generator: it yields a rate to try, and is sent whether that rate kept the limit.
"""

from collections.abc import Generator

PRECISION = 1.05
"""The search ends when the lowest rate that failed is at most so many times the highest that held."""
FARTHEST = 1024
"""How far below the first rate it looks before it says that none holds."""


def highest_rate(first: float) -> Generator[float, bool, float | None]:
    """Doubles or halves the rate from `first` on until one held and one failed, then halves what lies between
    them, in proportion. Returns the highest rate that held; None where none did.
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
