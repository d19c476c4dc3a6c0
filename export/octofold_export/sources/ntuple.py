"""An n-tuple network, with its tables in a file beside the graph."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from octofold_game.bitboards import pack
from octofold_players.compiled.table_files import TableFileError
from octofold_players.ntuple.network import NTupleNetwork

from octofold_export.checks.reference import Evaluate, Numbers
from octofold_export.description.description import Answers, Description, Reads
from octofold_export.errors import ExportError
from octofold_export.handmade.tables import TENSOR, TupleTables
from octofold_export.sources.source import Source

_MOST_ENTRIES = 2**31  # their indices are 32-bit integers


def from_ntuple(folder: Path) -> Source:
    """Load a folder of `NTupleNetwork.save`.

    Raises:
        ExportError: it cannot be read, or holds too many values or some that are not finite.
    """
    return ntuple_source(load_network(folder))


def load_network(folder: Path) -> NTupleNetwork:
    """Load a folder of `NTupleNetwork.save`.

    Raises:
        ExportError: it cannot be read, or holds values that are not finite.
    """
    try:
        return NTupleNetwork.load(folder)
    except TableFileError as error:
        raise ExportError(str(error)) from error


def ntuple_source(network: NTupleNetwork) -> Source:
    """Make a source from an n-tuple network with finite values.

    Raises:
        ExportError: it has too many values.
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
    """Eight times the sum of a view's entries; its mean over the eight views is the network's value."""

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
