"""Transposition tables of compiled searches. Each thread reuses its own table for successive searches."""

from __future__ import annotations

import threading

import numpy as np

MOST_SEARCHES = (1 << 28) - 1
"""The largest number that identifies a search. A table entry has 28 bits for this number."""


class Transpositions(threading.local):
    """A transposition table `[entries]` per thread. A search ignores the entries of other searches."""

    def __init__(self, entries: int, kind: np.dtype[np.void]) -> None:
        self._kind = kind
        self.renew(entries)

    def renew(self, entries: int) -> None:
        """Replace the thread's table with an empty one of this size."""
        self.table = np.zeros(entries, self._kind)
        self._searches = 0  # the number of the last search that used the table

    def reserve_numbers(self, searches: int) -> int:
        """Reserve numbers for `searches` searches; return the first. Renew the table if too few are left."""
        if self._searches + searches > MOST_SEARCHES:
            self.renew(len(self.table))
        self._searches += searches
        return self._searches - searches + 1
