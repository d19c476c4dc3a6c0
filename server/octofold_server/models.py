"""The models that this server knows: loading them, finding the one that a call asks for, listing them all.

A version that cannot be served is kept with its reason and does not disturb the others. Knows nothing about
gRPC calls.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from octofold_proto.errors import UnknownModel

from octofold_server.backend import Backend, BackendError, BackendFactory
from octofold_server.batcher import Batcher
from octofold_server.config import Config
from octofold_server.onnx_backend import OnnxBackend, cuda_is_available
from octofold_server.repository import (
    Card,
    ModelError,
    VersionFolder,
    choose_precision,
    cpu_has_vnni,
    find_versions,
    read_card,
    read_model,
)

__all__ = ["KnownVersion", "Models", "ServedModel", "State"]

CPU_BATCH_SIZE = 32
CUDA_BATCH_SIZE = 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServedModel:
    """A version that answers calls."""

    name: str
    version: str
    largest_exponent: int
    batcher: Batcher


class State(Enum):
    LOADING = 1
    READY = 2
    FAILED = 3


@dataclass
class KnownVersion:
    """A version of the repository and what became of it."""

    folder: VersionFolder
    state: State = State.LOADING
    reason: str = ""
    precision: str = ""
    card: Card | None = None


class Models:
    """Every model version of one repository.

    Args:
        config: the server's.
        new_backend: makes what computes the moves of a version.

    Raises:
        ModelError: the repository cannot be read.
    """

    def __init__(self, config: Config, new_backend: BackendFactory = OnnxBackend) -> None:
        self._config = config
        self._new_backend = new_backend
        self._device = _device(config.device)
        self._served: dict[tuple[str, str], ServedModel] = {}  # by what a call may ask for, "" included
        self.versions = [KnownVersion(folder) for folder in find_versions(config.models)]
        self.default = config.default_model

    def load(self) -> None:
        """Load and warm up every version; afterwards calls find those that succeeded.

        Raises:
            ModelError: nothing can be served, or the model that was asked to be the default cannot.
        """
        for known in self.versions:  # sorted by version: the newest that is ready wins
            name, version = known.folder.name, known.folder.version
            try:
                self._serve(known, self._load(known))
                known.state = State.READY
            except ModelError as error:
                known.state, known.reason = State.FAILED, str(error)
                _log.error("%s/%d cannot be served: %s", name, version, error)
            except Exception as error:  # whatever it is, it must not take the other models along
                known.state, known.reason = State.FAILED, f"unexpected {error!r}"
                _log.exception("%s/%d cannot be served", name, version)
        names = sorted({name for name, _ in self._served})
        if not names:
            raise ModelError(self._why_nothing_is_served())
        if self.default and self.default not in names:
            raise ModelError(
                f"the default model {self.default!r} cannot be served; ready: {', '.join(names)}"
            )
        if not self.default and len(names) == 1:
            self.default = names[0]

    def resolve(self, name: str, version: str) -> ServedModel:
        """The model for a call; an empty name means the default, an empty version the newest ready.

        Raises:
            UnknownModel: there is none; the message says what there is.
        """
        served = self._served.get((name or self.default, version))
        if served is None:
            raise UnknownModel(self._why_not_found(name, version))
        return served

    def close(self) -> None:
        """Finish what the models have accepted, then free them."""
        for served in set(self._served.values()):
            served.batcher.close()

    def _load(self, known: KnownVersion) -> Backend:
        card = known.card = read_card(known.folder)
        precision = choose_precision(card, self._config.precision, device=self._device, vnni=cpu_has_vnni())
        model = read_model(card.precisions[precision])
        try:
            backend = self._new_backend(model, self._device, self._max_batch_size)
            backend.warm_up()
        except BackendError as error:
            raise ModelError(f"{card.precisions[precision].path.name}: {error}") from error
        known.precision = precision
        return backend

    def _serve(self, known: KnownVersion, backend: Backend) -> None:
        assert known.card is not None
        name, version = known.folder.name, str(known.folder.version)
        lanes = self._config.lanes or (1 if self._device == "cuda" else _usable_cores())
        batcher = Batcher(
            backend,
            lanes=lanes,
            max_batch_size=self._max_batch_size,
            queue_capacity=self._config.queue_capacity,
            name=f"{name}-{version}",
        )
        served = ServedModel(name, version, known.card.largest_exponent, batcher)
        self._served[name, version] = self._served[name, ""] = served
        _log.info("%s/%s is ready: %s on %s, %d lanes", name, version, known.precision, self._device, lanes)

    @property
    def _max_batch_size(self) -> int:
        return self._config.max_batch_size or (CUDA_BATCH_SIZE if self._device == "cuda" else CPU_BATCH_SIZE)

    def _why_nothing_is_served(self) -> str:
        if not self.versions:
            return f"no models in {Path(self._config.models).resolve()}: expected NAME/VERSION/card.json"
        failures = (f"{known.folder.name}/{known.folder.version}: {known.reason}" for known in self.versions)
        return "no model can be served: " + "; ".join(failures)

    def _why_not_found(self, name: str, version: str) -> str:
        ready = ", ".join(f"{name}/{version}" for name, version in self._served if version)
        if not (name or self.default):
            return f"this server has no default model: name one of {ready}"
        return f"no model {name or self.default}{'/' if version else ''}{version} is ready; ready: {ready}"


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on every system; heeds what a container may use
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _device(wanted: str) -> str:
    available = wanted != "cpu" and cuda_is_available()
    if wanted == "cuda" and not available:
        raise ModelError("no CUDA: it takes a GPU, its driver and octofold[server-gpu]")
    return "cuda" if available else "cpu"
