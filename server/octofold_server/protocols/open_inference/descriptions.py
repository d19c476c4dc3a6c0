"""Descriptions of the server and its models, in the JSON form of the Open Inference Protocol.

REST sends these objects unchanged, and gRPC converts them with protobuf's JSON mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version as installed_version
from typing import Any

from octofold_server.batching.statistics import ModelStatistics, Snapshot, Total
from octofold_server.models.loading import ServedVersion
from octofold_server.models.version_index import VersionState, VersionStatus
from octofold_server.protocols.open_inference.tensors import BOARDS, OUTPUTS, TensorSpec

PLATFORM = "onnxruntime_onnx"
PLAYER_PLATFORM = "octofold_player"
EXTENSIONS = (
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "statistics",
)
"""Supported extensions of Triton; `schedule_policy` means the parameters priority and timeout."""

_UNAVAILABLE = (VersionState.FAILED, VersionState.UNLOADED)

JsonObject = dict[str, Any]


def server_metadata() -> JsonObject:
    """The name, version and extensions of the server."""
    return {"name": "octofold", "version": installed_version("octofold"), "extensions": list(EXTENSIONS)}


def model_metadata(served: ServedVersion, versions: Iterable[str]) -> JsonObject:
    """The tensors of a model.

    Args:
        served: the model version.
        versions: the ready versions of the model.
    """
    return {
        "name": served.name,
        "versions": list(versions),
        "platform": _platform(served),
        "inputs": [_tensor(BOARDS)],
        "outputs": [_tensor(OUTPUTS[name]) for name in served.output_names],
    }


def model_config(served: ServedVersion, max_boards: int) -> JsonObject:
    """The configuration of a model.

    Args:
        served: the model version.
        max_boards: maximum number of boards in a call.
    """
    card = served.card
    parameters = {"largest_exponent": str(served.largest_exponent)}
    if card.player is None:
        parameters["precision"] = served.precision
    else:
        parameters["player"] = card.player.kind
        parameters |= {f"option_{name}": str(value) for name, value in card.player.options.items()}
    if card.value_unit is not None:
        parameters["value_unit"] = card.value_unit
    return {
        "name": served.name,
        "platform": _platform(served),
        "backend": "onnxruntime" if card.player is None else "octofold",
        "max_batch_size": max_boards,
        "input": [{"name": BOARDS.name, "data_type": f"TYPE_{BOARDS.datatype}", "dims": list(BOARDS.shape)}],
        "output": [_output_config(OUTPUTS[name]) for name in served.output_names],
        "instance_group": [{"name": f"{served.name}_0", "count": served.batcher.lanes, "kind": "KIND_AUTO"}],
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


def model_statistics(statistics: Mapping[tuple[str, str], ModelStatistics]) -> JsonObject:
    """The statistics of model versions, by name and version."""
    return {
        "model_stats": [
            _statistics(name, version, kept.snapshot()) for (name, version), kept in statistics.items()
        ]
    }


def index(versions: Iterable[VersionStatus], *, only_ready: bool) -> list[JsonObject]:
    """The state of every version, or of the ready ones."""
    return [
        {
            "name": version.name,
            "version": str(version.version),
            "state": "UNAVAILABLE" if version.state in _UNAVAILABLE else version.state.name,
            "reason": version.reason,
        }
        for version in versions
        if version.state is VersionState.READY or not only_ready
    ]


def _platform(served: ServedVersion) -> str:
    return PLATFORM if served.card.player is None else PLAYER_PLATFORM


def _tensor(spec: TensorSpec) -> JsonObject:
    return {"name": spec.name, "datatype": spec.datatype, "shape": [-1, *spec.shape]}


def _output_config(spec: TensorSpec) -> JsonObject:
    # Triton writes an output with only the batch dimension as a reshaped one.
    shape = {"dims": list(spec.shape)} if spec.shape else {"dims": [1], "reshape": {"shape": []}}
    return {"name": spec.name, "data_type": f"TYPE_{spec.datatype}", **shape}


def _statistics(name: str, version: str, now: Snapshot) -> JsonObject:
    # Boards are read in place, so there is no time for input.
    no_input = Total(now.success.count, 0.0)
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
            "compute_input": _duration(no_input),
            "compute_infer": _duration(now.inference),
            "compute_output": _duration(now.overhead),
            "cache_hit": _duration(Total(0, 0.0)),
            "cache_miss": _duration(Total(0, 0.0)),
        },
        "batch_stats": [
            {
                "batch_size": boards,
                "compute_input": _duration(Total(batch.count, 0.0)),
                "compute_infer": _duration(batch),
                "compute_output": _duration(Total(batch.count, 0.0)),
            }
            for boards, batch in now.batches.items()
        ],
    }


def _duration(total: Total) -> JsonObject:
    return {"count": total.count, "ns": round(total.seconds * 1e9)}
