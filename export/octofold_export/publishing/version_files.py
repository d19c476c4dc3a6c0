"""The files of a version: graphs with metadata, external tensors, the card and README.md.

With a config.pbtxt beside the versions, Triton's onnxruntime backend can serve the same folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import onnx
from msgspec.structs import replace
from numpy.typing import NDArray
from octofold_game.contract.graph import BOARDS, CONTRACT, OUTPUTS, Tensor
from octofold_game.contract.model import (
    CARD_FILE,
    GRAPH_FILES,
    MOVES_FILES,
    README_FILE,
    Card,
    CompactTablesPlaces,
    GraphFile,
    ListedFile,
    NoWorse,
    Precision,
    StageAgreement,
    encode_card,
    parse_card,
    tensor_file,
)
from onnx import helper

from octofold_export.publishing.readme import render_readme
from octofold_export.publishing.repository import Content

_CONFIG = """\
# Written by octofold-export. Triton can serve this folder:
#   tritonserver --model-repository=models
name: "{name}"
backend: "onnxruntime"
default_model_filename: "{file}"
max_batch_size: {max_batch_size}
input [
{inputs}
]
output [
{outputs}
]
dynamic_batching {{ }}
"""
_MAX_BATCH_SIZE = 1024
_TYPES = {"uint8": "TYPE_UINT8", "int8": "TYPE_INT8", "float32": "TYPE_FP32", "bool": "TYPE_BOOL"}
_NO_TENSORS: Mapping[str, ListedFile] = MappingProxyType({})


class Agreement(NamedTuple):
    """The share of boards on which a reduced precision plays the same move as float32, also by stage."""

    share: float
    by_stage: dict[str, StageAgreement]


def version_files(
    card: Card,
    graphs: Mapping[Precision, onnx.ModelProto],
    moves: Mapping[Precision, onnx.ModelProto],
    agreement: Mapping[Precision, Agreement],
    tensors: Mapping[str, NDArray[np.float32]],
    locate_tables: Callable[[bytes], CompactTablesPlaces] | None = None,
) -> dict[str, Content]:
    """Return the contents of a version's files, keyed by file name.

    Args:
        card: the card without its files.
        graphs: the graphs by precision.
        moves: the graphs for moves alone by precision, where they exist.
        agreement: the agreement of reduced precisions with float32.
        tensors: external tensors by name, each in its own file.
        locate_tables: finds compact tables in the file of the float32 graph; see `Source.locate_tables`.
    """
    models: dict[Precision, Content] = {}
    for precision, graph in graphs.items():
        write_metadata(graph, card, precision)
        models[precision] = graph.SerializeToString()
    beside: dict[str, Content] = {tensor_file(name): values.data for name, values in tensors.items()}
    listed = {
        name: ListedFile(file=tensor_file(name), sha256=hashlib.sha256(values.data).hexdigest())
        for name, values in tensors.items()
    }
    precisions = {
        precision: graph_entry(precision, content, agreement.get(precision), listed)
        for precision, content in models.items()
    }
    tables = None if locate_tables is None else locate_tables(bytes(models["fp32"]))
    graph_files: dict[str, Content] = {GRAPH_FILES[each]: content for each, content in models.items()}
    for precision, graph in moves.items():
        content = graph_files[MOVES_FILES[precision]] = graph.SerializeToString()
        precisions[precision] = with_moves(precisions[precision], precision, content)
    card = replace(card, precisions=precisions, compact_tables=tables)
    return graph_files | beside | {CARD_FILE: encode_card(card), README_FILE: render_readme(card)}


def graph_entry(
    precision: Precision,
    content: Content,
    agreement: Agreement | None,
    tensors: Mapping[str, ListedFile] = _NO_TENSORS,
) -> GraphFile:
    """Return a graph's entry in the card: its file, digest, external tensors and agreement."""
    digest = hashlib.sha256(content).hexdigest()
    listed = GraphFile(file=GRAPH_FILES[precision], sha256=digest, tensors=dict(tensors))
    return listed if agreement is None else with_agreement(listed, agreement)


def with_agreement(listed: GraphFile, agreement: Agreement) -> GraphFile:
    """Return a graph's entry in the card after adding how often the graph agrees with float32."""
    return replace(listed, agreement=round(agreement.share, 5), agreement_by_stage=agreement.by_stage)


def with_moves(listed: GraphFile, precision: Precision, content: bytes) -> GraphFile:
    """Return a graph's entry in the card after adding the file and digest of its graph for moves alone."""
    digest = hashlib.sha256(content).hexdigest()
    return replace(listed, moves=ListedFile(file=MOVES_FILES[precision], sha256=digest))


def write_metadata(graph: onnx.ModelProto, card: Card, precision: Precision) -> None:
    """Write the name, version and settings of the model into the metadata of `graph`."""
    values = {
        "name": card.name,
        "version": card.version,
        "precision": precision,
        "checkpoint_sha256": card.checkpoint_sha256,
        "decision_rule": card.decision_rule,
        "symmetries": card.symmetries,
        "largest_exponent": card.largest_exponent,
        "contract": CONTRACT,
    }
    helper.set_model_props(graph, {f"octofold.{key}": str(value) for key, value in values.items()})


def with_comparison(files: Mapping[str, Content], shown: NoWorse) -> dict[str, Content]:
    """Return a version's files after adding the figures of a comparison to card.json and README.md."""
    card = replace(parse_card(bytes(files[CARD_FILE]).decode()), no_worse=shown)
    return {**files, CARD_FILE: encode_card(card), README_FILE: render_readme(card)}


def triton_config(name: str) -> str:
    """Return Triton's config.pbtxt for the float32 graph of the model `name`, with batches of up to 1,024."""
    return _CONFIG.format(
        name=name,
        file=GRAPH_FILES["fp32"],
        max_batch_size=_MAX_BATCH_SIZE,
        inputs=_declared(BOARDS),
        outputs=_declared(*OUTPUTS),
    )


def _declared(*tensors: Tensor) -> str:
    return ",\n".join(
        f'  {{ name: "{tensor.name}" data_type: {_TYPES[tensor.dtype.name]} {_shape(tensor)} }}'
        for tensor in tensors
    )


def _shape(tensor: Tensor) -> str:
    if not tensor.shape:  # Triton needs a reshape for a tensor with only the batch dimension
        return "dims: [ 1 ] reshape: { shape: [ ] }"
    return f"dims: [ {', '.join(map(str, tensor.shape))} ]"
