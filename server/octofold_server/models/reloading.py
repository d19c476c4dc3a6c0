"""Brings the models up to date with their folder when somebody asks for it, or when the folder has changed.

It has a thread of its own, because draining an old version takes as long as its calls do. Knows nothing about
signals, nor about what a model is.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from octofold_proto.errors import ModelError, Unavailable

from octofold_server.models.registry import Models
from octofold_server.models.repository import fingerprint

__all__ = ["Reloading"]

_log = logging.getLogger(__name__)


class Reloading:
    """Reloads on request, and every time the folder looks different.

    It looks instead of being told: that works on every file system, network mounts included.

    Args:
        models: what to reload.
        folder: their repository.
        watch_seconds: between two looks at the folder; 0 to never look.
    """

    def __init__(self, models: Models, folder: Path, watch_seconds: float) -> None:
        self._models = models
        self._watch_seconds = watch_seconds
        self._look = _Look(folder)
        self._look.changed()  # before anything is loaded: what comes later is seen to have changed
        self._asked = False
        self._closed = False
        self._changed = threading.Condition()  # guards the two above
        self._thread = threading.Thread(target=self._run, name="reloading", daemon=True)

    def start(self) -> None:
        """Begin; the models are taken to be as the folder was when this object was made."""
        self._thread.start()

    def request(self) -> None:
        """Reload soon; requests that come in quick succession become one."""
        with self._changed:
            self._asked = True
            self._changed.notify()

    def close(self, limit_seconds: float) -> None:
        """Reload no more; wait for the reload that is going on, if any."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(limit_seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked or self._closed, self._watch_seconds or None)
                if self._closed:
                    return
                asked, self._asked = self._asked, False
            if asked or self._look.changed():
                _log.info("reloading the models: %s", "asked to" if asked else "their folder has changed")
                _logged(self._models.reload)


class _Look:
    """What the folder looked like the last time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: object = None

    def changed(self) -> bool:
        """Whether it looks different now. One that cannot be read does, too: reloading tells why."""
        try:
            now: object = fingerprint(self._folder)
        except ModelError as error:
            now = str(error)
        seen, self._seen = self._seen, now
        return now != seen


def _logged(reload: Callable[[], None]) -> None:
    try:
        reload()
    except ModelError as error:
        _log.error("nothing is reloaded: %s", error)
    except Unavailable as error:
        _log.info("the reload is given up: %s", error)
    except Exception:  # the next request must find somebody
        _log.exception("nothing is reloaded")
