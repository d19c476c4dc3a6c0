"""What became of every version of a model repository, for whoever asks at whatever time.

Knows nothing about how versions are loaded, nor about calls.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from octofold_server.batching.statistics import ModelStatistics

__all__ = ["State", "VersionIndex", "VersionStatus"]


class State(Enum):
    LOADING = 1
    READY = 2
    FAILED = 3
    UNLOADING = 4  # takes no calls, and finishes what it has accepted
    UNLOADED = 5


@dataclass(frozen=True)
class VersionStatus:
    """What became of a version of the repository.

    The reason may also tell of a version that is ready why its newer files are not what serves.
    """

    name: str
    version: int
    state: State = State.LOADING
    reason: str = ""
    precision: str = ""
    card_text: str = ""


class VersionIndex:
    """The status and the statistics of every known version; any thread may call any method.

    A version that is loaded again goes on with its old statistics, so that no counter goes backwards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards everything below
        self._statuses: dict[tuple[str, int], VersionStatus] = {}
        self._statistics: dict[tuple[str, int], ModelStatistics] = {}

    def set(self, status: VersionStatus) -> None:
        """From now on, this is the status of its version."""
        with self._lock:
            self._statuses[status.name, status.version] = status

    def get(self, name: str, version: int) -> VersionStatus | None:
        """The status of a version; None when it is not known."""
        with self._lock:
            return self._statuses.get((name, version))

    def all(self) -> list[VersionStatus]:
        """Every known version, sorted by name and version."""
        with self._lock:
            return [self._statuses[key] for key in sorted(self._statuses)]

    def of(self, name: str) -> list[VersionStatus]:
        """Every known version of one model, sorted."""
        return [status for status in self.all() if status.name == name]

    def statistics_of(self, name: str, version: int) -> ModelStatistics:
        """The statistics of a version, new if it has none yet."""
        with self._lock:
            return self._statistics.setdefault((name, version), ModelStatistics())

    def statistics(self) -> Mapping[tuple[str, str], ModelStatistics]:
        """Of every version that has ever answered calls and is still known, by name and version."""
        with self._lock:
            return {(name, str(version)): kept for (name, version), kept in sorted(self._statistics.items())}

    def forget(self, name: str, but: Collection[int]) -> None:
        """The versions of one model, but these, are no longer known."""
        with self._lock:
            for key in [key for key in self._statuses if key[0] == name and key[1] not in but]:
                del self._statuses[key]
                self._statistics.pop(key, None)
