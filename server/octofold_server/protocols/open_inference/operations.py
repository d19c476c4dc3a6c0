"""Operations of the Open Inference Protocol: descriptions, statistics, loading and unloading.

gRPC and REST both use this module, so that they differ only in form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from octofold_proto.errors import InvalidRequest, Unavailable, UnknownModel

from octofold_server.admission.admission import Admission
from octofold_server.protocols.open_inference import descriptions as describe
from octofold_server.protocols.open_inference.descriptions import JsonObject
from octofold_server.system.quoting import quoted
from octofold_server.telemetry.metrics import Page, exposition


class SharedOperations(Protocol):
    """Several processes that load and unload models together and share one page of metrics."""

    def load(self, name: str) -> None:
        """Load a model in all processes."""
        ...

    def unload(self, name: str) -> None:
        """Unload a model in all processes."""
        ...

    def metrics(self) -> Page:
        """Read the metrics of all processes."""
        ...


class OpenInference:
    """The operations of a server.

    Args:
        admission: the admission of the server.
        shared: the service that this process shares with others; None if this is the only process.
    """

    def __init__(self, admission: Admission, shared: SharedOperations | None = None) -> None:
        self._admission = admission
        self._shared = shared
        self._models = admission.models

    @property
    def ready(self) -> bool:
        """Whether the server is ready, as in `Admission.ready`."""
        return self._admission.ready

    def model_ready(self, name: str, version: str) -> bool:
        """Whether a model is ready on a ready server."""
        try:
            self._models.resolve(name, version)
        except (UnknownModel, Unavailable):
            return False
        return self.ready

    def server_metadata(self) -> JsonObject:
        """Describe the server."""
        return describe.server_metadata()

    def model_metadata(self, name: str, version: str) -> JsonObject:
        """Describe the tensors of a model.

        Raises:
            UnknownModel, Unavailable: as in `Models.resolve`.
        """
        served = self._models.resolve(name, version)
        versions = [ready.version for ready in self._models.served() if ready.name == served.name]
        return describe.model_metadata(served, versions)

    def model_config(self, name: str, version: str) -> JsonObject:
        """Describe the configuration of a model.

        Raises:
            UnknownModel, Unavailable: as in `Models.resolve`.
        """
        return describe.model_config(self._models.resolve(name, version), self._admission.limits.boards)

    def model_statistics(self, name: str, version: str) -> JsonObject:
        """Report the statistics of matching versions.

        Args:
            name: name of a model; empty for all models.
            version: a version of the model; empty for all versions.

        Raises:
            UnknownModel: the named model or version has no statistics.
        """
        kept = self._models.statistics()
        if name:
            kept = {key: value for key, value in kept.items() if key[0] == name and version in ("", key[1])}
        if name and not kept:
            raise UnknownModel(f"no statistics for model {quoted(name)} version {quoted(version)}")
        return describe.model_statistics(kept)

    def index(self, repository: str, *, only_ready: bool) -> list[JsonObject]:
        """List the versions.

        Args:
            repository: must be empty.
            only_ready: whether to list only ready versions.

        Raises:
            InvalidRequest: `repository` is not empty.
        """
        _check_repository(repository)
        return describe.index(self._models.index(), only_ready=only_ready)

    def load(self, repository: str, name: str, parameters: Iterable[str]) -> None:
        """Load or reload a model; blocks until it serves.

        Args:
            repository: must be empty.
            name: name of the model.
            parameters: names of the request's parameters; must be empty, because files and configurations
                come only from the repository.

        Raises:
            InvalidRequest: `repository` or `parameters` is not empty.
            UnknownModel, ModelError, Unavailable: as in `Models.load`.
        """
        _check_repository(repository)
        for parameter in parameters:
            raise InvalidRequest(
                f"parameter {quoted(parameter)} is not supported: models come from the repository"
            )
        (self._shared or self._models).load(name)

    def unload(self, repository: str, name: str) -> None:
        """Drain and unload a model; blocks until this is done.

        Args:
            repository: must be empty.
            name: name of the model.

        Raises:
            InvalidRequest: `repository` is not empty.
            UnknownModel: as in `Models.unload`.
            Unavailable: another process changes models, and the server is shutting down.
        """
        _check_repository(repository)
        (self._shared or self._models).unload(name)

    def metrics(self) -> Page:
        """Read the metrics of all processes for Prometheus; blocks until they answer."""
        if self._shared is not None:
            return self._shared.metrics()
        admission = self._admission
        return exposition(self._models, admission.refusals, ready=self.ready, open_calls=admission.open_calls)


def _check_repository(name: str) -> None:
    if name:
        raise InvalidRequest(f"unknown repository {quoted(name)}: the only repository has no name")
