"""Players that are loaded when somebody first asks for them.

Their code and their tables take seconds and gigabytes, which a server that only runs networks should not
spend.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable

from octofold_game.contract.model import Card
from octofold_proto.errors import ModelError, Unavailable, UnknownModel

WHEN_ASKED = "a player, which is loaded when it is first asked for"

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
        self._loading: set[str] = set()  # because calls have asked for them
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

        If nothing comes of it, because the repository cannot be read for now, the next call tries again.
        """
        with self._lock:
            if name in self._loading:
                return
            self._loading.add(name)
        threading.Thread(target=self._load, args=(name, load), name=f"load-{name}", daemon=True).start()

    def _load(self, name: str, load: Callable[[str], None]) -> None:
        try:
            load(name)
        except (ModelError, Unavailable, UnknownModel) as error:
            _log.info("%s was asked for and cannot be loaded: %s", name, error)
        finally:
            with self._lock:
                self._loading.remove(name)
