"""How rates change in the course of a run."""

from __future__ import annotations


def cooling(done: float, whole: float, cool_down: float) -> float:
    """Factor on a rate when `done` of a `whole` run is over: 1, and less in its last part.

    Args:
        done: positions or moves so far; may exceed `whole`.
        whole: those of the run.
        cool_down: last share of the run, in which the rate falls linearly to 0; 0: it never falls.
    """
    if not cool_down:
        return 1.0
    return min(1.0, max(0.0, 1 - done / whole) / cool_down)
