"""Keeps the models of the server: loads and unloads them, and finds the version that answers a call.

Calls read a table that is never changed, only replaced. When a new version is loaded and warm, it replaces
the old version in one step, and the old version finishes its accepted calls.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from octofold_game.contract.model import CARD_FILE, DEFAULT_MODEL, Card, parse_card
from octofold_game.system.files import write_text
from octofold_proto.errors import ModelError, Unavailable, UnknownModel

from octofold_server.backends.backend import BackendFactory
from octofold_server.backends.onnx_value import network_lanes
from octofold_server.batching.statistics import ModelStatistics
from octofold_server.config.options import Config
from octofold_server.models.loading import Loader, ServedVersion
from octofold_server.models.repository import VersionFolder, find_versions, read_card, versions_by_name
from octofold_server.models.version_index import (
    BY_REQUEST,
    ON_DEMAND,
    VersionIndex,
    VersionState,
    VersionStatus,
)
from octofold_server.system.quoting import quoted

_UNAVAILABLE: Mapping[VersionState | str, str] = {
    VersionState.LOADING: "is loading",
    VersionState.READY: "is being unloaded",  # removed from `Models.ready`, but not from the index yet
    VersionState.UNLOADING: "is unloading",
    ON_DEMAND: f"is {ON_DEMAND}",
    BY_REQUEST: f"was {BY_REQUEST}",
}
"""The end of the message about a version that is not available, by its state or its reason."""

FOLDER_GONE = "its folder is gone; the version is served until the model has another version"

_log = logging.getLogger(__name__)

OnChange = Callable[[str, bool], None]


class Models:
    """All model versions of one repository.

    Args:
        config: the configuration of the server.
        new_backends: makes the lanes of a version.
        on_change: called with the name of a model and whether any of its versions is ready, whenever that may
            have changed.
        shared: folder in which the processes of one service record the default model and the models that were
            unloaded by request; None if there is only one process.

    Attributes:
        ready: every version that answers calls, by the name and version in a call. An empty version in a call
            means the newest one. The mapping is replaced, never changed.
        default: the model used when a request names none; empty if there is no default. It is chosen at the
            start and does not change.

    Raises:
        ModelError: the repository cannot be read; or as in `Loader`.
    """

    def __init__(
        self,
        config: Config,
        new_backends: BackendFactory = network_lanes,
        on_change: OnChange = lambda _name, _ready: None,
        shared: Path | None = None,
    ) -> None:
        self._config = config
        self._loader = Loader(config, new_backends)
        self._on_change = on_change
        self._shared = shared
        self._unloaded: set[str] = set()  # models unloaded by request; not used with `shared`
        if shared is not None:
            (shared / "unloaded").mkdir(exist_ok=True)
        self.ready: Mapping[tuple[str, str], ServedVersion] = {}
        self._index = VersionIndex()
        self._players = {config.default_model}  # players that are loaded without waiting for a call
        self._on_demand: set[str] = set()  # players that are being loaded for a call
        self._on_demand_lock = threading.Lock()  # guards `_on_demand`
        self._changing = threading.Lock()  # held while versions are loaded and replaced, not while they drain
        self._loading_stopped = threading.Event()
        self.default = config.default_model
        for folder in find_versions(config.models):
            self._index.set(VersionStatus(folder.name, folder.version))
            self._on_change(folder.name, False)

    def start(self) -> None:
        """Load the versions that the policies select, except models that were unloaded by request.

        Players to load on demand are loaded now only if no other version is ready.

        Raises:
            ModelError: the repository cannot be read, or the default model or every model cannot be served.
            Unavailable: the server is shutting down.
        """
        by_name = versions_by_name(self._config.models)
        if self.default and by_name and self.default not in by_name:  # fail now, not after minutes of loading
            raise ModelError(f"--default-model must be one of {', '.join(by_name)}, got {self.default!r}")
        for name, policy in self._config.versions.by_model.items():
            if not any(policy.allows(folder.version) for folder in by_name.get(name, ())):
                _log.warning(
                    "the rule %s of --versions selects no version of %s in the model repository", policy, name
                )
        with self._changing:
            unloaded = self._unloaded_names() & by_name.keys()
            for name in unloaded:
                self._index.mark_unloaded(name)
            names = [name for name in by_name if name not in unloaded]
            self._update_each(names, by_name)
            if not self.ready and (waiting := self.waiting()):  # all models are players
                self._players |= {status.name for status in waiting}
                self._update_each(names, by_name)
        names = sorted({name for name, _ in self.ready} | unloaded)
        if not names:
            reasons = (f"{status.name}/{status.version}: {status.reason}" for status in self.index())
            raise ModelError(
                f"no model can be served: {'; '.join(reasons)}"
                if self.index()
                else f"no models in {self._config.models.resolve()}: --models needs NAME/VERSION/{CARD_FILE}"
            )
        if self.default and self.default not in names:
            ready = ", ".join(name for name in names if name not in unloaded) or "none"
            raise ModelError(f"--default-model {self.default!r} cannot be served; ready models: {ready}")
        if not self.default:
            self.default = self._default_among(names)

    def resolve(self, name: str, version: str, *, loads: bool = False) -> ServedVersion:
        """Return the model version for a call.

        An empty name means the default model, and an empty version means the newest ready one.

        With `loads`, this starts to load a player that waits for its first call. Until that player is ready,
        an older ready version answers the calls that name no version.

        Raises:
            UnknownModel: no such version is ready, or there is no default; the message lists ready versions.
            Unavailable: the version is not loaded yet, is being unloaded, or was unloaded by request.
        """
        name = name or self.default
        served = self.ready.get((name, version))
        if served is not None:
            return served
        known = self._index.of(name)
        if loads and any(
            status.reason == ON_DEMAND and version in ("", str(status.version)) for status in known
        ):
            self._load_on_demand(name)
        older = self._serving(name)
        if older and not version:
            return older[max(older)]
        ready = ", ".join(f"{served.name}/{served.version}" for served in self.served()) or "none"
        if not name:
            raise UnknownModel(f"no default model, so the request must name a model; ready models: {ready}")
        wanted = f"{name}/{version}" if version else name
        for status in known:
            state = VersionState.LOADING if loads and status.reason == ON_DEMAND else status.state
            why = _UNAVAILABLE.get(state) or _UNAVAILABLE.get(status.reason)
            if why and version in ("", str(status.version)):
                raise Unavailable(f"{wanted} {why}")
        raise UnknownModel(f"no model {quoted(wanted)} is ready; ready models: {ready}")

    def index(self) -> list[VersionStatus]:
        """Return the status of every known version, sorted by name and version."""
        return self._index.all()

    def served(self) -> list[ServedVersion]:
        """Return every version that answers calls, sorted by name and version."""
        ready = [served for (_, version), served in self.ready.items() if version]
        return sorted(ready, key=lambda served: (served.name, int(served.version)))

    def waiting(self) -> list[VersionStatus]:
        """Return the statuses of all players that are not loaded yet, because no call has asked for them."""
        return [status for status in self.index() if status.reason == ON_DEMAND]

    def loading(self) -> list[VersionStatus]:
        """Return the statuses of all versions that are being loaded and whose cards have been read."""
        loading = (status for status in self.index() if status.state is VersionState.LOADING)
        return [status for status in loading if status.card_text]

    def names_with_exponent(self, exponent: int) -> list[str]:
        """Return the names of all models, ready or waiting, that accept a tile with this exponent."""
        cards = [served.card for served in self.served()]
        cards += [parse_card(status.card_text) for status in self.waiting()]
        return sorted({card.name for card in cards if card.largest_exponent >= exponent})

    def statistics(self) -> Mapping[tuple[str, str], ModelStatistics]:
        """Return the statistics of the versions by name and version, as `VersionIndex.statistics` does."""
        return self._index.statistics()

    def load(self, name: str) -> None:
        """Load the versions of one model that its policy selects, even after `unload`.

        The method returns when these versions are ready or have failed. Replaced versions may still finish
        accepted calls. A version with an unchanged card is not loaded again.

        Raises:
            UnknownModel: the repository has no version of the model.
            ModelError: the repository cannot be read, the policy selects no version, or the newest selected
                version cannot be served. The current versions continue to serve.
            Unavailable: the server is shutting down.
        """
        with self._changing:
            folders = versions_by_name(self._config.models).get(name)
            if folders is None:
                raise UnknownModel(f"the model repository has no version of {quoted(name)}")
            self._set_unloaded(name, False)
            self._players.add(name)
            statuses = self._replace_versions(name, folders)
        policy = self._config.versions.of(name)
        newest = max((version for version in statuses if policy.allows(version)), default=None)
        if newest is None:
            raise ModelError(f"the rule {policy} of --versions selects no version of {name!r}")
        if reason := statuses[newest].reason:
            raise ModelError(f"{name}/{newest}: {reason}")

    def reload(self) -> None:
        """Update all models from the repository, except models that were unloaded by request.

        If a version cannot be served, the reason is logged, and `index` returns it. A model keeps its
        versions, even if their folders are gone, until the repository has other versions of the model.

        Raises:
            ModelError: the repository cannot be read; nothing changes.
            Unavailable: the server is shutting down.
        """
        with self._changing:
            by_name = versions_by_name(self._config.models)
            names = {*by_name, *(status.name for status in self.index())} - self._unloaded_names()
            self._update_each(sorted(names), by_name)

    def unload(self, name: str) -> None:
        """Refuse new calls for a model. Its versions finish the accepted calls and are then freed.

        Raises:
            UnknownModel: the model does not exist.
        """
        with self._changing:
            if not self._index.of(name):
                raise UnknownModel(f"there is no model {quoted(name)}")
            self._set_unloaded(name, True)
            serving = self._serving(name)
            self._swap(name, {})
            self._drain(serving.values())
            self._index.mark_unloaded(name)
            _log.info("%s is unloaded", name)

    def stop_loading(self) -> None:
        """Load no more versions. A thread that loads several raises Unavailable before the next one."""
        self._loading_stopped.set()

    def check_not_stopped(self) -> None:
        """Check that `stop_loading` was not called.

        Raises:
            Unavailable: `stop_loading` was called.
        """
        if self._loading_stopped.is_set():
            raise Unavailable("the server is shutting down")

    def wait_until_settled(self, limit_seconds: float) -> bool:
        """Wait until no version is being loaded or unloaded. Return False if the time limit passes first."""
        settled = self._changing.acquire(timeout=limit_seconds)
        if settled:
            self._changing.release()
        return settled

    def close(self) -> None:
        """Finish accepted calls, then free the models, including those that are being unloaded."""
        for batcher in [*(served.batcher for served in self.served()), *self._index.draining()]:
            batcher.close()

    def _update_each(self, names: Iterable[str], by_name: Mapping[str, list[VersionFolder]]) -> None:
        for name in names:
            try:
                self._replace_versions(name, by_name.get(name, []))
            except Unavailable:
                raise
            except Exception:  # no error may prevent the update of other models
                _log.exception("cannot update the model %s", name)

    def _replace_versions(self, name: str, folders: list[VersionFolder]) -> Mapping[int, VersionStatus]:
        """Update one model from its folders and its policy, even if a version fails to load.

        Returns:
            The new status of each version.
        """
        policy = self._config.versions.of(name)
        serving = self._serving(name)
        self._on_change(name, bool(serving))
        ready: dict[int, ServedVersion] = {}
        statuses: dict[int, VersionStatus] = {}
        for folder in sorted(folders, key=lambda folder: -folder.version):
            version = folder.version
            if policy.allows(version) and len(ready) != policy.max_versions:
                served, statuses[version] = self._load_or_keep(folder, serving.get(version))
                if served is not None:
                    ready[version] = served
            else:
                why = f"not served: the rule of --versions is {policy}"
                statuses[version] = VersionStatus(name, version, VersionState.UNLOADED, why)
        ready = ready or serving  # an old version is better than none
        waiting = [version for version, status in statuses.items() if status.reason == ON_DEMAND]
        self._swap(name, ready, newest=max(ready, default=0) > max(waiting, default=0))
        self._drain(served for version, served in serving.items() if ready.get(version) is not served)
        for version, served in ready.items():
            if version in statuses:
                statuses[version] = _ready(served, statuses[version].reason)
            else:
                statuses[version] = _ready(served, FOLDER_GONE)
                _log.warning("%s/%d: %s", name, version, FOLDER_GONE)
        self._index.replace(name, statuses)
        return statuses

    def _load_or_keep(
        self, folder: VersionFolder, current: ServedVersion | None
    ) -> tuple[ServedVersion | None, VersionStatus]:
        """Load a version that is new or changed. Return it (or else `current`) and its status."""
        name, version = folder.name, folder.version
        self.check_not_stopped()
        status = VersionStatus(name, version)
        try:
            card, text = read_card(folder)
            status = replace(status, card_text=text)
            if current is not None and text == current.card_text:
                return current, status
            if current is None:
                if self._is_on_demand(card):
                    return None, replace(status, state=VersionState.UNLOADED, reason=ON_DEMAND)
                self._index.set(status)
            return self._loader.load(folder, card, text, self._index.statistics_of(name, version)), status
        except Exception as error:  # no error may affect other models
            reason = _failure_reason(error)
            unforeseen = None if isinstance(error, ModelError | MemoryError) else error
            _log.error("%s/%d cannot be served: %s", name, version, reason, exc_info=unforeseen)
        if current is not None:
            return current, replace(status, reason=f"its new files cannot be served: {reason}")
        status = replace(status, state=VersionState.FAILED, reason=reason)
        self._index.set(status)
        return None, status

    def _is_on_demand(self, card: Card) -> bool:
        """Return whether a version is a player that is loaded when a call first asks for it."""
        return card.player is not None and self._config.players is None and card.name not in self._players

    def _serving(self, name: str) -> dict[int, ServedVersion]:
        return {int(served.version): served for served in self.served() if served.name == name}

    def _swap(self, name: str, ready: Mapping[int, ServedVersion], *, newest: bool = True) -> None:
        """Replace the versions that answer calls for a model.

        Args:
            name: the name of the model.
            ready: the versions that answer its calls from now on.
            newest: whether a call without a version gets the newest of these versions at once. It is False
                while a newer player waits for its first call, because `resolve` must then begin to load the
                player.
        """
        table = {key: served for key, served in self.ready.items() if key[0] != name}
        table |= {(name, str(version)): served for version, served in ready.items()}
        if ready and newest:
            table[name, ""] = ready[max(ready)]
        self.ready = table
        self._on_change(name, bool(ready))

    def _load_on_demand(self, name: str) -> None:
        """Start to load a player in a thread of its own, because loading may take seconds."""
        with self._on_demand_lock:
            if name not in self._on_demand:
                threading.Thread(target=self._run_on_demand, args=(name,), daemon=True).start()
                self._on_demand.add(name)

    def _run_on_demand(self, name: str) -> None:
        try:
            self.load(name)
        except (ModelError, Unavailable, UnknownModel) as error:
            _log.info("cannot load the player %s, which a call asked for: %s", name, error)
        finally:
            with self._on_demand_lock:
                self._on_demand.remove(name)

    def _unloaded_names(self) -> set[str]:
        """Return the names of models that were unloaded by request, in any process, and not loaded again."""
        if self._shared is None:
            return self._unloaded
        return {file.name for file in (self._shared / "unloaded").iterdir()}

    def _set_unloaded(self, name: str, is_unloaded: bool) -> None:
        if self._shared is None:
            (self._unloaded.add if is_unloaded else self._unloaded.discard)(name)
        elif is_unloaded:
            (self._shared / "unloaded" / name).touch()
        else:
            (self._shared / "unloaded" / name).unlink(missing_ok=True)

    def _default_among(self, names: Sequence[str]) -> str:
        """Return the only name, or `DEFAULT_MODEL` if it is one of several names, or an empty string.

        If there are several processes, all use the result of the first one.
        """
        shipped = DEFAULT_MODEL if DEFAULT_MODEL in names else ""
        obvious = names[0] if len(names) == 1 else shipped
        if self._shared is None:
            return obvious
        file = self._shared / "default"
        if not file.exists():
            write_text(file, obvious)
        return file.read_text(encoding="utf-8")

    def _drain(self, retired: Iterable[ServedVersion]) -> None:
        for served in retired:
            self._index.drain(served.name, int(served.version), served.batcher)


def _ready(served: ServedVersion, reason: str = "") -> VersionStatus:
    return VersionStatus(
        served.name, int(served.version), VersionState.READY, reason, served.precision, served.card_text
    )


def _failure_reason(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory"
    return str(error) if isinstance(error, ModelError) else f"unexpected {error!r}"
