"""Questions about the server and its models, and loading and unloading, in the terms of the Open Inference
Protocol, version 2, as Triton extends it. gRPC and REST hand over what they read and send what they get back,
so that they cannot differ in anything but form.
"""

from __future__ import annotations

from collections.abc import Iterable

from octofold_proto.errors import InvalidRequest, Unavailable, UnknownModel

from octofold_server.admission.admission import Admission
from octofold_server.admission.metrics import exposition
from octofold_server.admission.shared_service import SharedService
from octofold_server.protocols.open_inference import descriptions as describe
from octofold_server.protocols.open_inference.descriptions import Description
from octofold_server.system.quoting import quoted


class OpenInference:
    """What both transports do.

    Args:
        admission: where calls go.
        shared: what other processes have a part in; None when this is the only one.
    """

    def __init__(self, admission: Admission, shared: SharedService | None = None) -> None:
        self._admission = admission
        self._shared = shared
        self._models = admission.models

    @property
    def ready(self) -> bool:
        """Whether the server wants calls: a model is warm, and the server is not on its way out."""
        return self._admission.ready and self._models.any_ready and self._admission.is_alive()

    def model_ready(self, name: str, version: str) -> bool:
        """Whether the server wants calls for this model."""
        try:
            self._models.resolve(name, version)
        except (UnknownModel, Unavailable):
            return False
        return self.ready

    def server_metadata(self) -> Description:
        return describe.server_metadata()

    def model_metadata(self, name: str, version: str) -> Description:
        """Raises what `Models.resolve` raises, like all that follow with a name."""
        served = self._models.resolve(name, version)
        versions = [ready.version for ready in self._models.served() if ready.name == served.name]
        return describe.model_metadata(served, versions)

    def model_config(self, name: str, version: str) -> Description:
        return describe.model_config(self._models.resolve(name, version), self._admission.limits.boards)

    def model_statistics(self, name: str, version: str) -> Description:
        """Of one version, of all versions of one model, or of all models, as far as they are named."""
        kept = self._models.statistics()
        if name:
            kept = {key: value for key, value in kept.items() if key[0] == name and version in ("", key[1])}
        if name and not kept:
            raise UnknownModel(f"there are no statistics of {quoted(name)} {quoted(version)}")
        return describe.model_statistics(kept)

    def index(self, repository: str, *, only_ready: bool) -> list[Description]:
        """Every version; raises InvalidRequest when a repository is named."""
        _check_repository(repository)
        return describe.index(self._models.index(), only_ready=only_ready)

    def load(self, repository: str, name: str, parameters: Iterable[str]) -> None:
        """Load a model, or load it again; blocks until it serves.

        Raises:
            InvalidRequest: a repository is named, or the request brings files or a configuration: what is
                served comes from the repository, never from the wire.
            UnknownModel, ModelError: see `Models.load`.
        """
        _check_repository(repository)
        for parameter in parameters:
            raise InvalidRequest(
                f"parameter {quoted(parameter)} is not supported: models come from the repository"
            )
        self._models.load(name)
        if self._shared is not None:
            self._shared.load(name)

    def unload(self, repository: str, name: str) -> None:
        """Drain and free a model; blocks until it is done.

        Raises:
            InvalidRequest: a repository is named.
            UnknownModel: see `Models.unload`.
        """
        _check_repository(repository)
        self._models.unload(name)
        if self._shared is not None:
            self._shared.unload(name)

    def metrics(self) -> str:
        """The page that Prometheus reads, of all processes; blocks until they have answered."""
        if self._shared is not None:
            return self._shared.metrics()
        admission = self._admission
        return exposition(self._models, admission.refusals, ready=self.ready, open_calls=admission.open_calls)


def _check_repository(name: str) -> None:
    if name:
        raise InvalidRequest(f"unknown repository {quoted(name)}: there is one, and it has no name")
