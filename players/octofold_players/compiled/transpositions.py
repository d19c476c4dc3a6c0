"""The transposition tables of compiled searches: a thread keeps its own, for one search after another."""

from __future__ import annotations

import threading

import numpy as np

MOST_SEARCHES = (1 << 28) - 1
"""The largest number of a search: an entry keeps it in 28 bits."""


class Transpositions(threading.local):
    """A thread's table of `[entries] kind`; the entries of other searches are ignored."""

    def __init__(self, entries: int, kind: np.dtype[np.void]) -> None:
        self._kind = kind
        self.renew(entries)

    def renew(self, entries: int) -> None:
        """Take an empty table of this size."""
        self.table = np.zeros(entries, self._kind)
        self._searches = 0  # the number of the last search that used the table

    def number(self, searches: int) -> int:
        """Return the first of `count` successive search numbers; replaces the table if they run out."""
        if self._searches + searches > MOST_SEARCHES:
            self.renew(len(self.table))
        self._searches += searches
        return self._searches - searches + 1
