"""Why a model cannot answer, in one line."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from octofold_game.contract.model import CARD_FILE
from octofold_proto.errors import ModelError, Unavailable, UnknownModel

from octofold_server.models.on_demand import WHEN_ASKED
from octofold_server.models.version_index import VersionState, VersionStatus
from octofold_server.system.quoting import quoted

BY_REQUEST = "unloaded by request"

_log = logging.getLogger(__name__)


def why_nothing_is_served(repository: Path, known: Sequence[VersionStatus]) -> str:
    """Why no version of a repository can be served."""
    if not known:
        return f"no models in {repository.resolve()}: expected NAME/VERSION/{CARD_FILE}"
    failures = (f"{status.name}/{status.version}: {status.reason}" for status in known)
    return "no model can be served: " + "; ".join(failures)


def why_not_loaded(version: str, error: Exception) -> tuple[str, bool]:
    """Log why a version, such as "flagship/3", cannot be served; also, whether the reason may pass."""
    reason = str(error) if isinstance(error, ModelError) else f"unexpected {error!r}"
    if isinstance(error, MemoryError):
        reason = "not enough memory"
    is_known = isinstance(error, (ModelError, MemoryError))
    _log.error("%s cannot be served: %s", version, reason, exc_info=None if is_known else error)
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, (OSError, MemoryError)):
        cause = cause.__cause__  # of the system's, such as that too many files are open
    return reason, is_known and cause is not None


def why_not_found(
    name: str, version: str, known: Iterable[VersionStatus], ready: str
) -> UnknownModel | Unavailable:
    """Why a call finds no model.

    Args:
        name: the model that the call names, or the default; empty if there is neither.
        version: the version that it names; empty for the newest ready one.
        known: the versions of the model.
        ready: the versions that serve, as a text.
    """
    if not name:
        return UnknownModel(f"this server has no default model: name one of {ready}")
    asked = f"{name}/{version}" if version else name
    for status in known:
        if version in ("", str(status.version)):
            if status.state is VersionState.READY:  # it has just left the table; the index follows
                return Unavailable(f"{asked} is being unloaded")
            if status.state in (VersionState.LOADING, VersionState.UNLOADING):
                return Unavailable(f"{asked} is {status.state.name.lower()}")
            if status.reason == BY_REQUEST:
                return Unavailable(f"{asked} was {status.reason}")
            if status.reason == WHEN_ASKED:
                return Unavailable(f"{asked} is loading")
    return UnknownModel(f"no model {quoted(asked)} is ready; ready: {ready}")
