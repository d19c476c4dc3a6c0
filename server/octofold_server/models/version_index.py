"""The status and the statistics of every model version."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from octofold_server.batching.batcher import Batcher
from octofold_server.batching.statistics import ModelStatistics

BY_REQUEST = "unloaded by request"
ON_DEMAND = "a player that is loaded when a call first asks for it"

_log = logging.getLogger(__name__)


class VersionState(Enum):
    """The state of a model version."""

    LOADING = 1
    READY = 2
    FAILED = 3
    UNLOADING = 4  # refuses new calls and finishes accepted ones
    UNLOADED = 5


@dataclass(frozen=True)
class VersionStatus:
    """The status of a model version."""

    name: str
    version: int
    state: VersionState = VersionState.LOADING
    reason: str = ""
    """The reason why the version is not ready, or why a ready version differs from its folder; else empty."""
    precision: str = ""
    card_text: str = ""
    since: float = field(default_factory=time.monotonic, compare=False)
    """Time when the version got this status, in seconds of `time.monotonic`."""


class VersionIndex:
    """The status and the statistics of every known version. Any thread may call any method.

    A version that is loaded again keeps its statistics, so that no counter decreases, unless it was removed.
    While an unloaded or removed version finishes its accepted calls, its state is UNLOADING.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards everything below
        self._statuses: dict[tuple[str, int], VersionStatus] = {}
        self._statistics: dict[tuple[str, int], ModelStatistics] = {}
        self._draining: dict[Batcher, tuple[str, int]] = {}

    def set(self, status: VersionStatus) -> None:
        """Set the status of a version."""
        with self._lock:
            self._statuses[status.name, status.version] = status

    def replace(self, name: str, statuses: Mapping[int, VersionStatus]) -> None:
        """Replace the statuses of all versions of a model; remove versions that are not in `statuses`."""
        with self._lock:
            for key in [key for key in self._statuses if key[0] == name]:
                del self._statuses[key]
                if key[1] not in statuses:
                    self._forget(key)
            self._statuses |= {(name, version): status for version, status in statuses.items()}

    def mark_unloaded(self, name: str) -> None:
        """Mark all versions of a model, except failed ones, as unloaded by request."""
        with self._lock:
            for key, status in self._statuses.items():
                if key[0] == name and status.state is not VersionState.FAILED:
                    self._statuses[key] = VersionStatus(*key, VersionState.UNLOADED, BY_REQUEST)

    def drain(self, name: str, version: int, batcher: Batcher) -> None:
        """Let a version finish its accepted calls, without waiting for them."""
        with self._lock:
            self._draining[batcher] = name, version
        batcher.begin_to_close(partial(self._has_drained, batcher))

    def all(self) -> list[VersionStatus]:
        """Return the status of every known version, sorted by name and version."""
        with self._lock:
            statuses = dict(self._statuses)
            for key in self._draining.values():
                if key not in statuses or statuses[key].state is VersionState.UNLOADED:
                    statuses[key] = VersionStatus(
                        *key, VersionState.UNLOADING, "it finishes its accepted calls"
                    )
        return [statuses[key] for key in sorted(statuses)]

    def of(self, name: str) -> list[VersionStatus]:
        """Return the status of every known version of one model, sorted by version."""
        return [status for status in self.all() if status.name == name]

    def draining(self) -> list[Batcher]:
        """Return the batchers of versions that are finishing their accepted calls."""
        with self._lock:
            return list(self._draining)

    def statistics_of(self, name: str, version: int) -> ModelStatistics:
        """Return the statistics of a version; they are created if there are none yet."""
        with self._lock:
            return self._statistics.setdefault((name, version), ModelStatistics())

    def statistics(self) -> Mapping[tuple[str, str], ModelStatistics]:
        """Return the statistics by name and version, for known versions that the server has tried to load."""
        with self._lock:
            return {(name, str(version)): kept for (name, version), kept in sorted(self._statistics.items())}

    def _has_drained(self, batcher: Batcher) -> None:
        with self._lock:
            name, version = key = self._draining.pop(batcher)
            self._forget(key)
        _log.info("%s/%d is drained", name, version)

    def _forget(self, key: tuple[str, int]) -> None:
        """Remove the statistics of a version, unless it has a status or is finishing accepted calls."""
        if key not in self._statuses and key not in self._draining.values():
            self._statistics.pop(key, None)
