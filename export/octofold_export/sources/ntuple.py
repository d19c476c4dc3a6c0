"""An n-tuple network: all tables in a file beside the graph, or the most important entries in the graph."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import pack
from octofold_game.contract.model import CompactTablesPlaces, Place
from octofold_players.compiled.table_files import TableFileError
from octofold_players.ntuple.compact_tables import ARRAYS, FORMAT, CompactTables
from octofold_players.ntuple.compaction import compact
from octofold_players.ntuple.network import NTupleNetwork

from octofold_export.checks.reference import Evaluate, Numbers
from octofold_export.description.description import Answers, Description, Reads
from octofold_export.errors import ExportError
from octofold_export.handmade.tables import TENSOR, CompactEvaluator, TupleTables
from octofold_export.sources.source import Source

_OTHER_BYTES = 1_000_000  # of a graph without tables: slides of lines, and cells of the tuples
_MOST_ENTRIES = 2**31  # their indices are 32-bit integers


def from_ntuple(path: Path) -> Source:
    """Load what `NTupleNetwork.load` reads.

    Raises:
        ExportError: the network cannot be read, has too many values, or has values that are not finite.
    """
    return ntuple_source(load_network(path))


def load_network(path: Path) -> NTupleNetwork:
    """Load what `NTupleNetwork.load` reads.

    Raises:
        ExportError: the network cannot be read, or has values that are not finite.
    """
    try:
        return NTupleNetwork.load(path)
    except TableFileError as error:
        raise ExportError(str(error)) from error


def ntuple_source(network: NTupleNetwork) -> Source:
    """Make a source from an n-tuple network with finite values.

    Raises:
        ExportError: the network has too many values.
    """
    if network.values.size > _MOST_ENTRIES:
        raise ExportError(f"the network has {network.values.size:,} values, at most {_MOST_ENTRIES:,} fit")
    description = Description(
        reads=Reads(kind="exponents", layout="flat", type="uint8"),
        answers=Answers(kind="afterstate_value"),
        largest_exponent=15,  # the largest digit of the tables' indices
    )
    return Source(
        description=description,
        evaluate=ntuple_evaluation(network),
        fp32=TupleTables(network.tuples, network.values, network.stages),
        architecture={"kind": "ntuple", "tuples": network.tuples, "stages": network.stages},
        weights=network.values.size,
        checkpoint_sha256=hashlib.sha256(network.values.data).hexdigest(),
        fewest_symmetries=8,
        tensors={TENSOR: network.values},
        action_values=lambda boards: network.action_values(pack(boards)),
    )


def ntuple_evaluation(network: NTupleNetwork) -> Evaluate:
    """Make an evaluator that returns eight times the sum of a view's entries, as `tables` does."""

    def evaluate(views: NDArray[np.uint8]) -> Numbers:
        tables = network.values.reshape(len(network.stages) + 1, len(network.tuples), -1)
        stages = _stages(network, views)
        total = np.zeros(len(views))
        for number, cells in enumerate(network.tuples):
            digits = views[:, cells].astype(np.int64) << 4 * np.arange(len(cells))
            total += tables[stages, number, digits.sum(axis=1)]
        return 8 * total[:, None]

    return evaluate


def _stages(network: NTupleNetwork, boards: NDArray[np.uint8]) -> NDArray[np.intp]:
    held = np.ones(len(boards), bool)
    stages = np.zeros(len(boards), np.intp)
    for number, exponent in enumerate(network.stages):
        held &= (boards >= exponent if number == 0 else boards == exponent).any(axis=1)
        stages += held
    return stages


def from_ntuple_compactly(path: Path, largest_bytes: int) -> Source:
    """Load what `NTupleNetwork.load` reads, for a graph of at most `largest_bytes`.

    Raises:
        ExportError: the network cannot be read or does not fit.
    """
    network = load_network(path)
    try:
        tables = compact(network, largest_bytes - _OTHER_BYTES)
    except ValueError as error:
        raise ExportError(f"{path}: {error}") from error
    digest = hashlib.sha256(network.values.data).hexdigest()
    del network  # frees its tables before equally large ones are unpacked
    return compact_source(tables, digest)


def compact_source(tables: CompactTables, trained_sha256: str) -> Source:
    """Make the source of compact tables from a network whose values have this digest."""
    source = ntuple_source(NTupleNetwork(tables.tuples, tables.values(), tables.stages))
    return replace(
        source,
        fp32=CompactEvaluator(tables),
        weights=tables.kept,
        checkpoint_sha256=trained_sha256,
        tensors={},
        locate_tables=lambda model: _located(tables, model),
    )


def _located(tables: CompactTables, model: bytes) -> CompactTablesPlaces:
    """Return the positions of the tables in the file of a model, for `CompactTables.load`."""
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
