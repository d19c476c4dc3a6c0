"""An n-tuple network of a few megabytes, with its most important entries in the graph itself."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from octofold_game.contract.model import CompactTablesPlaces, Place
from octofold_players.ntuple.compact_tables import ARRAYS, FORMAT, CompactTables
from octofold_players.ntuple.compaction import compact
from octofold_players.ntuple.network import NTupleNetwork

from octofold_export.errors import ExportError
from octofold_export.handmade.compact_tables import CompactEvaluator
from octofold_export.sources.ntuple import load_network, ntuple_source
from octofold_export.sources.source import Source

_OTHER_BYTES = 1_000_000  # of a graph without tables: slides of lines, and cells of the tuples


def from_ntuple_compactly(folder: Path, largest_bytes: int) -> Source:
    """Load a folder of `NTupleNetwork.save`, for a graph of at most `largest_bytes`.

    Raises:
        ExportError: the network cannot be read, has several stages or does not fit.
    """
    network = load_network(folder)
    try:
        tables = compact(network, largest_bytes - _OTHER_BYTES)
    except ValueError as error:
        raise ExportError(f"{folder}: {error}") from error
    digest = hashlib.sha256(network.values.data).hexdigest()
    del network  # frees its tables before equally large ones are unpacked
    return compact_source(tables, digest)


def compact_source(tables: CompactTables, trained_sha256: str) -> Source:
    """Make the source of compact tables from a network whose values have this digest."""
    source = ntuple_source(NTupleNetwork(tables.tuples, tables.values()))
    return replace(
        source,
        fp32=CompactEvaluator(tables),
        weights=tables.kept,
        checkpoint_sha256=trained_sha256,
        tensors={},
        locate_tables=lambda model: _located(tables, model),
    )


def _located(tables: CompactTables, model: bytes) -> CompactTablesPlaces:
    """The positions of the tables in the file of a model, for `CompactTables.load`."""
    return CompactTablesPlaces(
        format=FORMAT,
        entries=tables.entries,
        kept=tables.kept,
        **{name: _place(model, getattr(tables, name)) for name in ARRAYS},
    )


def _place(model: bytes, numbers: NDArray[Any]) -> Place:
    offset = model.find(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())
    if offset < 0:
        raise ExportError("the graph does not contain its tables unchanged")  # another serialization of ONNX
    return Place(offset=offset, count=numbers.size)
