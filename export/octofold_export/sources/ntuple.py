"""Makes a source from an n-tuple network.

Either all tables are in a file beside the graph, or the most important entries are in the graph.
"""

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
from octofold_players.ntuple.compact_tables import FORMAT, CompactTables
from octofold_players.ntuple.compaction import compact
from octofold_players.ntuple.network import NTupleNetwork

from octofold_export.checks.reference import Evaluate, Numbers
from octofold_export.description.description import Answers, Description, Reads
from octofold_export.errors import ExportError
from octofold_export.handmade.ntuple_tables import TENSOR, CompactTablesEvaluator, FullTablesEvaluator
from octofold_export.sources.source import Source

_OTHER_BYTES = 1_000_000
"""Maximum size in bytes of a graph without its tables. The rest is mostly the results of sliding all lines,
and the cells of the tuples."""
_MOST_ENTRIES = 2**31
"""Maximum number of entries, because the graph computes their indices as 32-bit integers."""


def from_ntuple(path: Path, largest_bytes: int | None = None) -> Source:
    """Make a source from a file or folder that `NTupleNetwork.load` reads.

    The source has all tables or, with `largest_bytes`, a graph of at most this size with the most important
    entries.

    Raises:
        ExportError: the network cannot be read, has too many or non-finite values, or cannot be compacted.
    """
    try:
        network = NTupleNetwork.load(path)
    except TableFileError as error:
        raise ExportError(str(error)) from error
    if largest_bytes is None:
        return ntuple_source(network)
    try:
        tables = compact(network, largest_bytes - _OTHER_BYTES)
    except ValueError as error:
        raise ExportError(f"{path}: {error} (--max-megabytes {largest_bytes / 1e6:g})") from error
    digest = hashlib.sha256(network.values.data).hexdigest()
    del network  # frees the tables before compact tables are unpacked to the same size
    return _compact_source(tables, digest)


def ntuple_source(network: NTupleNetwork) -> Source:
    """Make a source from an n-tuple network with finite values.

    Raises:
        ExportError: the network has too many values.
    """
    if network.values.size > _MOST_ENTRIES:
        raise ExportError(
            f"the network must have at most {_MOST_ENTRIES:,} values, got {network.values.size:,}"
        )
    description = Description(
        reads=Reads(kind="exponents", layout="flat", type="uint8"),
        answers=Answers(kind="afterstate_value"),
        largest_exponent=15,  # each cell is a hexadecimal digit of a table index
    )
    return Source(
        description=description,
        evaluate=ntuple_evaluation(network),
        fp32=FullTablesEvaluator(network.tuples, network.values, network.stages),
        architecture={"kind": "ntuple", "tuples": network.tuples, "stages": network.stages},
        weights=network.values.size,
        checkpoint_sha256=hashlib.sha256(network.values.data).hexdigest(),
        fewest_symmetries=8,
        tensors={TENSOR: network.values},
        action_values=lambda boards: network.action_values(pack(boards)),
    )


def ntuple_evaluation(network: NTupleNetwork) -> Evaluate:
    """Make an evaluator that returns eight times the sum of the table entries of a view.

    `FullTablesEvaluator` computes the same value in the graph.
    """

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


def _compact_source(tables: CompactTables, trained_sha256: str) -> Source:
    """Make a source from compact tables; `trained_sha256` is the digest of the network's values."""
    source = ntuple_source(NTupleNetwork(tables.tuples, tables.values(), tables.stages))
    return replace(
        source,
        fp32=CompactTablesEvaluator(tables),
        weights=tables.kept,
        checkpoint_sha256=trained_sha256,
        tensors={},
        locate_tables=lambda model: _table_places(tables, model),
    )


def _table_places(tables: CompactTables, model: bytes) -> CompactTablesPlaces:
    """Return the positions of the compact tables in the bytes of a model, for `CompactTables.load`."""
    return CompactTablesPlaces(
        format=FORMAT,
        entries=tables.entries,
        kept=tables.kept,
        arrays={name: _place(model, array) for name, array in tables.arrays().items()},
    )


def _place(model: bytes, numbers: NDArray[Any]) -> Place:
    offset = model.find(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())
    if offset < 0:
        # ONNX serializes tensors in a way that this function does not know.
        raise ExportError("the serialized graph does not contain the bytes of its tables")
    return Place(offset=offset, count=numbers.size)
