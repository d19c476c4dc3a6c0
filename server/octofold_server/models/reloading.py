"""Reloads the models on request, or when their folder has changed.

It has its own thread, because loading takes seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from octofold_proto.errors import ModelError, Unavailable

from octofold_server.models.registry import Models
from octofold_server.models.repository import fingerprint

AGAIN_SECONDS = 30.0
"""Time between two attempts to load what failed for a reason that may pass, if the folder is watched."""

_log = logging.getLogger(__name__)


class Reloading:
    """Reloads on request, and whenever the folder has changed.

    It polls the folder, which works on every file system, including network mounts.

    Args:
        models: models to reload.
        folder: their repository.
        watch_seconds: interval between two checks of the folder; 0 disables.
        again_seconds: replaces `AGAIN_SECONDS`.
    """

    def __init__(
        self, models: Models, folder: Path, watch_seconds: float, again_seconds: float = AGAIN_SECONDS
    ) -> None:
        self._models = models
        self._watch_seconds = watch_seconds
        self._again_seconds = again_seconds
        self._look = _Look(folder)
        self._look.look()  # before anything is loaded, so that later changes are noticed
        self._again_at = 0.0  # the earliest time to try again what may have failed for a passing reason
        self._asked = False
        self._closed = False
        self._changed = threading.Condition()  # guards the two above
        self._thread = threading.Thread(target=self._run, name="reloading", daemon=True)

    def start(self) -> None:
        """Begin; the models are assumed to match the folder as it was when this object was made."""
        self._thread.start()

    def request(self) -> None:
        """Reload soon; requests in quick succession become one."""
        with self._changed:
            self._asked = True
            self._changed.notify()

    def close(self, limit_seconds: float) -> None:
        """Stop reloading, and wait for a running reload."""
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
            changed, written = self._look.look()
            again = time.monotonic() >= self._again_at and self._models.may_do_better
            if asked or changed or again:
                why = "asked to" if asked else "their folder has changed" if changed else "trying again"
                _log.log(logging.INFO if asked or written else logging.DEBUG, "reloading the models: %s", why)
                _logged(self._models.reload)
                self._again_at = time.monotonic() + self._again_seconds


class _Look:
    """The state of the folder at the last check."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: tuple[object, object] = (None, None)

    def look(self) -> tuple[bool, bool]:
        """Whether the folder has changed or cannot be read, and whether somebody has written files.

        Some network mounts give the same files new inodes every time.
        """
        try:
            now = fingerprint(self._folder)
            found: tuple[object, object] = now, {mark[:3] for mark in now}
        except ModelError as error:
            found = str(error), str(error)
        seen, self._seen = self._seen, found
        return found[0] != seen[0], found[1] != seen[1]


def _logged(reload: Callable[[], None]) -> None:
    try:
        reload()
    except ModelError as error:
        _log.error("models are not reloaded: %s", error)
    except Unavailable as error:
        _log.info("stopped the reload: %s", error)
    except Exception:  # the thread must survive for the next request
        _log.exception("models are not reloaded")
