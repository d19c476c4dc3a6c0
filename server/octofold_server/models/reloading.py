"""Reloads the models on request, and when the model repository has changed."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from octofold_proto.errors import ModelError, Unavailable

from octofold_server.models.registry import Models
from octofold_server.models.repository import fingerprint

_log = logging.getLogger(__name__)


class Reloading:
    """Reloads models in a thread of its own, because loading takes seconds.

    The thread polls the repository, because polling works on every file system, including network mounts.

    Args:
        models: the models to reload.
        folder: the folder of the model repository.
        watch_seconds: seconds between two checks of the folder; 0 checks it only on request.
    """

    def __init__(self, models: Models, folder: Path, watch_seconds: float) -> None:
        self._models = models
        self._folder = folder
        self._watch_seconds = watch_seconds
        self._seen = self._current_state()  # read before models are loaded, so that no later change is missed
        self._is_requested = False
        self._is_closed = False
        self._changed = threading.Condition()  # guards `_is_requested` and `_is_closed`
        self._thread = threading.Thread(target=self._reload_when_needed, name="reloading", daemon=True)

    def start(self) -> None:
        """Start the thread. Load the models after making this object, and before calling `start`."""
        self._thread.start()

    def request(self) -> None:
        """Request a reload; several requests before it begins cause a single reload."""
        with self._changed:
            self._is_requested = True
            self._changed.notify()

    def close(self, limit_seconds: float) -> None:
        """Stop the thread, and wait at most `limit_seconds` for a running reload."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(limit_seconds)

    def _reload_when_needed(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._is_requested or self._is_closed, self._watch_seconds or None
                )
                if self._is_closed:
                    return
                is_requested, self._is_requested = self._is_requested, False
            before, self._seen = self._seen, self._current_state()
            if is_requested or self._seen != before:
                why = "by request" if is_requested else "the model repository has changed"
                _log.info("reloading the models: %s", why)
                self._try_reload()

    def _current_state(self) -> object:
        """Return a value that changes when the folder changes or becomes unreadable."""
        try:
            return fingerprint(self._folder)
        except ModelError as error:
            return str(error)

    def _try_reload(self) -> None:
        try:
            self._models.reload()
        except ModelError as error:
            _log.error("cannot reload the models: %s", error)
        except Unavailable as error:
            _log.info("stopped reloading the models: %s", error)
        except Exception:  # no error may end the thread
            _log.exception("cannot reload the models")
