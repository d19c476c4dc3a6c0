"""The files of a published version: the graphs with their metadata, the tensors beside them, and the card."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from importlib.metadata import version as installed_version
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from octofold_export.graph.builder import external_file
from octofold_export.publishing.card import CARD_FILE, FORMAT, README_FILE, Card, describe, encode
from octofold_export.publishing.versions import Content

Precision = Literal["fp32", "int8", "fp16"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "int8", "fp16")
FILES: dict[Precision, str] = {"fp32": "model.onnx", "int8": "model.int8.onnx", "fp16": "model.fp16.onnx"}

CONTRACT = 1
"""Version of the graph's inputs and outputs, see `folding.fold`."""


def version_files(
    name: str,
    version: int,
    graphs: Mapping[Precision, onnx.ModelProto],
    agreement: Mapping[Precision, Mapping[str, Any]],
    tensors: Mapping[str, NDArray[np.float32]],
    fields: Mapping[str, Any],
    located: Callable[[bytes], dict[str, Any]] | None = None,
) -> dict[str, Content]:
    """The files of a version by their names.

    `fields`: what the card says beside precisions and strength. `located`: see `Source`.
    """
    models = {}
    for precision, graph in graphs.items():
        write_metadata(graph, name, version, precision, fields)
        models[precision] = graph.SerializeToString()
    if located is not None:
        fields = {**fields, **located(models["fp32"])}
    beside: dict[str, Content] = {external_file(tensor): values.data for tensor, values in tensors.items()}
    described = {
        tensor: {"file": external_file(tensor), "sha256": _sha256(values.data)}
        for tensor, values in tensors.items()
    }
    card: Card = {
        "format": FORMAT,
        "name": name,
        "version": version,
        **{key: value for key, value in fields.items() if key not in ("boards", "not_published")},
        "precisions": {
            precision: {
                "file": FILES[precision],
                "sha256": _sha256(content),
                **({"tensors": described} if described else {}),
                **agreement.get(precision, {}),
            }
            for precision, content in models.items()
        },
        **{key: fields[key] for key in ("not_published",) if key in fields},
        "strength": None,
        "exporter": installed_version("octofold"),
        "boards": fields["boards"],
    }
    files: dict[str, Content] = {FILES[precision]: content for precision, content in models.items()}
    return files | beside | {CARD_FILE: encode(card), README_FILE: describe(card)}


def write_metadata(
    graph: onnx.ModelProto, name: str, version: int, precision: Precision, fields: Mapping[str, Any]
) -> None:
    """Write what identifies the model into the ONNX file itself, for whoever holds nothing else."""
    values = {
        "name": name,
        "version": version,
        "precision": precision,
        "checkpoint_sha256": fields["checkpoint_sha256"],
        "decision_rule": fields["decision_rule"],
        "symmetries": fields["symmetries"],
        "largest_exponent": fields["largest_exponent"],
        "contract": CONTRACT,
    }
    helper.set_model_props(graph, {f"octofold.{key}": str(value) for key, value in values.items()})


def _sha256(content: Content) -> str:
    return hashlib.sha256(content).hexdigest()
