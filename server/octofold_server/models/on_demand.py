"""Players that are loaded when somebody first asks for them.

Their code and their tables take seconds and gigabytes, which a server that only runs networks should not
spend.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable

from octofold_game.contract.model import Card
from octofold_proto.errors import ModelError, Unavailable, UnknownModel

WHEN_ASKED = "a player, which is loaded when it is first asked for"

PAUSE_SECONDS = 2.0
"""Time from the end of a try to the next. Each reads the repository, and callers may ask all the time."""

_log = logging.getLogger(__name__)


class OnDemand:
    """The names of the models that were asked for.

    Args:
        asked: those that the configuration asks for.
        everything: whether it asks for all players.
    """

    def __init__(self, asked: Collection[str], *, everything: bool) -> None:
        self._asked = set(asked)
        self._everything = everything
        self._next_tries: dict[str, float] = {}  # times of `time.monotonic`; never while one is loaded
        self._lock = threading.Lock()

    def waits(self, card: Card) -> bool:
        """Whether a version waits until somebody asks for its model."""
        return card.player is not None and not self._everything and card.name not in self._asked

    def add(self, name: str) -> bool:
        """Note that somebody asks for a model; return whether nobody has before."""
        with self._lock:
            is_new = name not in self._asked
            self._asked.add(name)
        return is_new

    def add_all(self, names: Iterable[str]) -> bool:
        """Note that somebody asks for some models; return whether there are any."""
        return sum([self.add(name) for name in names]) > 0

    def load(self, name: str, load: Callable[[str], None]) -> None:
        """Load a model aside, because a call has asked for it, unless that has begun already.

        If nothing comes of it, because the repository cannot be read for now, a call tries again after
        `PAUSE_SECONDS`.
        """
        with self._lock:
            if time.monotonic() < self._next_tries.get(name, -math.inf):
                return
            self._next_tries[name] = math.inf
        loading = threading.Thread(target=self._load, args=(name, load), name=f"load-{name}", daemon=True)
        try:
            loading.start()
        except RuntimeError as error:  # the system has no thread left
            self._end_try(name, error)

    def _load(self, name: str, load: Callable[[str], None]) -> None:
        error: Exception | None = None
        try:
            load(name)
        except (ModelError, Unavailable, UnknownModel) as reason:
            error = reason
        finally:
            self._end_try(name, error)

    def _end_try(self, name: str, error: Exception | None) -> None:
        if error is not None:
            _log.info("%s was asked for and cannot be loaded: %s", name, error)
        with self._lock:
            self._next_tries[name] = time.monotonic() + PAUSE_SECONDS
