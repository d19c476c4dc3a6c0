"""The operations of the Open Inference Protocol: descriptions, statistics, loading and unloading.

gRPC and REST both use this module, so they return the same content. REST sends the JSON objects unchanged,
and gRPC converts them to messages with protobuf's JSON mapping.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version as installed_version
from typing import Any

from octofold_proto.errors import InvalidRequest, Unavailable, UnknownModel

from octofold_server.admission.admission import Admission
from octofold_server.batching.statistics import Snapshot, Total
from octofold_server.models.loading import ServedVersion
from octofold_server.models.version_index import VersionState
from octofold_server.protocols.open_inference.tensors import BOARDS, OUTPUTS, TensorSpec
from octofold_server.system.quoting import quoted
from octofold_server.telemetry.metrics import Page, exposition

PLATFORM = "onnxruntime_onnx"
PLAYER_PLATFORM = "octofold_player"
EXTENSIONS = (
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "statistics",
)
"""Supported extensions of Triton. `schedule_policy` stands for the parameters priority and timeout."""

_UNAVAILABLE = (VersionState.FAILED, VersionState.UNLOADED)

JsonObject = dict[str, Any]


class OpenInference:
    """The operations of a server with one process."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._models = admission.models

    @property
    def ready(self) -> bool:
        """Whether the server is ready; see `Admission.ready`."""
        return self._admission.ready

    def model_ready(self, name: str, version: str) -> bool:
        """Return whether the server and a model are ready."""
        try:
            self._models.resolve(name, version)
        except (UnknownModel, Unavailable):
            return False
        return self.ready

    def server_metadata(self) -> JsonObject:
        """Return the name, the version and the extensions of the server."""
        return {"name": "octofold", "version": installed_version("octofold"), "extensions": list(EXTENSIONS)}

    def model_metadata(self, name: str, version: str) -> JsonObject:
        """Return the ready versions, the platform and the tensors of a model.

        Raises:
            UnknownModel, Unavailable: as in `Models.resolve`.
        """
        served = self._models.resolve(name, version)
        return {
            "name": served.name,
            "versions": [ready.version for ready in self._models.served() if ready.name == served.name],
            "platform": _platform(served),
            "inputs": [_tensor(BOARDS)],
            "outputs": [_tensor(OUTPUTS[name]) for name in served.output_names],
        }

    def model_config(self, name: str, version: str) -> JsonObject:
        """Return the configuration of a model in Triton's form.

        Raises:
            UnknownModel, Unavailable: as in `Models.resolve`.
        """
        served = self._models.resolve(name, version)
        card = served.card
        parameters = {"largest_exponent": str(served.largest_exponent)}
        if card.player is None:
            parameters["precision"] = served.precision
        else:
            parameters["player"] = card.player.kind
            parameters |= {f"option_{name}": str(value) for name, value in card.player.options.items()}
        if card.value_unit is not None:
            parameters["value_unit"] = card.value_unit
        boards = {"name": BOARDS.name, "data_type": f"TYPE_{BOARDS.datatype}", "dims": list(BOARDS.shape)}
        lanes = {"name": f"{served.name}_0", "count": served.batcher.lanes, "kind": "KIND_AUTO"}
        return {
            "name": served.name,
            "platform": _platform(served),
            "backend": "onnxruntime" if card.player is None else "octofold",
            "max_batch_size": self._admission.limits.boards,
            "input": [boards],
            "output": [_output_config(OUTPUTS[name]) for name in served.output_names],
            "instance_group": [lanes],
            **({} if served.graph is None else {"default_model_filename": served.graph.file}),
            "dynamic_batching": {
                "preferred_batch_size": [served.batcher.max_batch_size],
                "max_queue_delay_microseconds": 0,
                "priority_levels": 2,
                "default_priority_level": 1,
            },
            "model_transaction_policy": {"decoupled": False},
            "parameters": {name: {"string_value": value} for name, value in parameters.items()},
        }

    def model_statistics(self, name: str, version: str) -> JsonObject:
        """Return the statistics of the matching versions.

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
            raise UnknownModel(f"no statistics for model {quoted(f'{name}/{version}' if version else name)}")
        return {"model_stats": [_statistics(*key, value.snapshot()) for key, value in kept.items()]}

    def index(self, *, only_ready: bool) -> list[JsonObject]:
        """Return name, version, state and reason of all model versions, or only of those that are ready."""
        return [
            {
                "name": version.name,
                "version": str(version.version),
                "state": "UNAVAILABLE" if version.state in _UNAVAILABLE else version.state.name,
                "reason": version.reason,
            }
            for version in self._models.index()
            if version.state is VersionState.READY or not only_ready
        ]

    def load(self, name: str, parameters: Iterable[str]) -> None:
        """Load or reload a model, and wait until it is ready; replaced versions may still finish calls.

        Args:
            name: name of the model.
            parameters: names of the request's parameters. There must be none, because files and
                configurations come only from the repository.

        Raises:
            InvalidRequest: `parameters` is not empty.
            UnknownModel, ModelError, Unavailable: as in `Models.load`; Unavailable also as in `unload`.
        """
        for parameter in parameters:
            raise InvalidRequest(
                f"parameter {quoted(parameter)} is not supported: models come only from the repository"
            )
        self.load_model(name)

    def load_model(self, name: str) -> None:
        """Load a model, as `Models.load` does."""
        self._models.load(name)

    def unload(self, name: str) -> None:
        """Unload a model, as `Models.unload` does; its accepted calls are still answered.

        Raises:
            UnknownModel: as in `Models.unload`.
            Unavailable: another process does not answer, or is still changing models at shutdown.
        """
        self._models.unload(name)

    def metrics(self) -> Page:
        """Return the metrics for Prometheus."""
        admission = self._admission
        return exposition(self._models, admission.refusals, ready=self.ready, open_calls=admission.open_calls)


def _platform(served: ServedVersion) -> str:
    return PLATFORM if served.card.player is None else PLAYER_PLATFORM


def _tensor(spec: TensorSpec) -> JsonObject:
    return {"name": spec.name, "datatype": spec.datatype, "shape": [-1, *spec.shape]}


def _output_config(spec: TensorSpec) -> JsonObject:
    # In Triton's configuration, an output needs a dimension besides the batch. An output without one is
    # declared with one element and reshaped.
    shape = {"dims": list(spec.shape)} if spec.shape else {"dims": [1], "reshape": {"shape": []}}
    return {"name": spec.name, "data_type": f"TYPE_{spec.datatype}", **shape}


def _statistics(name: str, version: str, now: Snapshot) -> JsonObject:
    def no_time(count: int) -> JsonObject:  # for steps of Triton that this server does not have
        return _duration(Total(count, 0.0))

    return {
        "name": name,
        "version": version,
        "last_inference": now.last_inference_ms,
        "inference_count": now.boards,
        "execution_count": now.executions,
        "inference_stats": {
            "success": _duration(now.success),
            "fail": _duration(now.failure),
            "queue": _duration(now.queue),
            "compute_input": no_time(now.success.count),
            "compute_infer": _duration(now.inference),
            "compute_output": _duration(now.overhead),
            "cache_hit": no_time(0),
            "cache_miss": no_time(0),
        },
        "batch_stats": [
            {
                "batch_size": boards,
                "compute_input": no_time(batch.count),
                "compute_infer": _duration(batch),
                "compute_output": no_time(batch.count),
            }
            for boards, batch in now.batches.items()
        ],
    }


def _duration(total: Total) -> JsonObject:
    return {"count": total.count, "ns": round(total.seconds * 1e9)}
