"""Unpacks the compact tables of an n-tuple graph once for all sessions and processes on this machine.

A published graph holds compact tables (`octofold_players.ntuple.compact_tables`) and the nodes that unpack
them. onnxruntime runs these nodes when it makes a session, which takes gigabytes for some seconds and gives
each session its own tables. This module unpacks the tables directly into the form that the graph reads, and
makes them an input of the graph. Sessions do not copy inputs, so lanes, views and processes share the tables.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import UNPACKED_TABLES
from octofold_game.system.files import whole_file
from octofold_proto.onnx import graph_pb2 as onnx

from octofold_server.backends.onnx_pruning import prune
from octofold_server.system.file_lock import locked

TABLES = UNPACKED_TABLES
"""The name of the unpacked tables, float16 [entries]: a tensor in the published graph, an input here."""

Tables = Mapping[str, NDArray[np.float16]]
"""The tables of a graph by the name of their input; empty for a graph that has none."""
NO_TABLES: Tables = MappingProxyType({})

_PACKED = ("page_bits", "entry_bits", "lower_codes", "upper_codes", "codebook")
_PAGE = 16  # entries of a page; each page has one bit in the page bits
_PIECE = 1 << 15  # bytes of page bits to unpack at a time, into 8 MB
_VALUES = 1 << 12  # of the codebook
_FLOAT16 = 10  # in an ONNX file

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_unpacked: WeakValueDictionary[str, NDArray[np.float16]] = (
    WeakValueDictionary()
)  # by digest; guarded by _lock


class _Packed(NamedTuple):
    """The arrays of `CompactTables`."""

    page_bits: NDArray[np.uint8]
    entry_bits: NDArray[np.uint8]
    lower_codes: NDArray[np.uint8]
    upper_codes: NDArray[np.uint8]
    codebook: NDArray[np.float32]

    @property
    def entries(self) -> int:
        """Number of entries of the unpacked tables."""
        return len(self.page_bits) * 8 * _PAGE

    def digest(self) -> str:
        """Return the digest of everything that the unpacked tables depend on."""
        digest = hashlib.sha256()
        for array in self:
            digest.update(array.data)
        return digest.hexdigest()


def without_tables(model: bytes, shared: Path | None) -> tuple[bytes, Tables]:
    """Return the graph with its compact tables as an input, and the tables by the name of the input.

    Any other graph is returned as it is, with no tables.

    Args:
        model: the graph.
        shared: folder in which the processes of a service share the tables; None if there is only this one.
    """
    if TABLES.encode() not in model:
        return model, NO_TABLES
    parsed = onnx.Model.FromString(model)
    graph = parsed.graph
    packed = _packed_tables(graph)
    if packed is None:
        return model, NO_TABLES
    table = _shared_tables(packed, shared)
    nodes = [node for node in graph.node if TABLES not in node.output]
    del graph.node[:]
    graph.node.extend(nodes)
    prune(graph)
    kind = onnx.Type(
        tensor_type=onnx.Type.TensorType(
            elem_type=_FLOAT16, shape=onnx.Shape(dim=[onnx.Shape.Dimension(dim_value=len(table))])
        )
    )
    graph.input.append(onnx.ValueInfo(name=TABLES, type=kind))
    return parsed.SerializeToString(), {TABLES: table}


def _packed_tables(graph: onnx.Graph) -> _Packed | None:
    """Return the packed tables of a graph; None if it has none that fit together."""
    kept = {each.name: each.raw_data for each in graph.initializer if each.name in _PACKED}
    if len(kept) < len(_PACKED) or len(kept["codebook"]) % 4:
        return None
    arrays = [np.frombuffer(kept[name], np.uint8) for name in _PACKED]
    packed = _Packed(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4].view("<f4"))
    pages, count = (int(np.bitwise_count(bits).sum()) for bits in (packed.page_bits, packed.entry_bits))
    codes = {len(packed.lower_codes), 2 * len(packed.upper_codes)}
    fits = len(packed.entry_bits) == 2 * pages and codes == {count} and len(packed.codebook) == _VALUES
    return packed if fits else None


def _shared_tables(packed: _Packed, folder: Path | None) -> NDArray[np.float16]:
    """Return the unpacked tables, which are made if this process has none yet."""
    digest = packed.digest()
    with _lock:
        table = _unpacked.get(digest)
        if table is None:
            table = _in_memory(packed) if folder is None else _in_file(packed, folder / f"{digest}.tables")
            _unpacked[digest] = table
    return table


def _in_memory(packed: _Packed) -> NDArray[np.float16]:
    table = np.zeros(packed.entries, np.float16)
    _unpack(packed, table)
    return table


def _in_file(packed: _Packed, file: Path) -> NDArray[np.float16]:
    """Return unpacked tables in a file that all processes map, or in private memory if the disk is full."""
    try:
        with locked(file.with_suffix(".lock"), lambda: None):
            if not file.exists():
                with whole_file(file) as partial, partial.open("wb") as made:
                    os.posix_fallocate(made.fileno(), 0, 2 * packed.entries)  # a full disk is an error here
                    _unpack(packed, np.memmap(partial, np.float16, "r+"))
        return np.asarray(np.memmap(file, np.float16, "r"))
    except OSError as error:
        _log.warning("the processes cannot share tables, so each uses its own memory: %s", error)
        return _in_memory(packed)


def _unpack(packed: _Packed, table: NDArray[np.float16]) -> None:
    """Write the kept entries into tables of zeros, a piece at a time."""
    pages = table.view(f"V{2 * _PAGE}")
    values = packed.codebook.astype(np.float16)
    page = entry = 0  # numbers of the next kept page and kept entry
    for start in range(0, len(packed.page_bits), _PIECE):
        kept_pages = np.flatnonzero(_bits(packed.page_bits[start : start + _PIECE]))
        entry_bits = packed.entry_bits[2 * page : 2 * (page + len(kept_pages))]
        last = entry + int(np.bitwise_count(entry_bits).sum())
        piece = np.zeros(len(kept_pages) * _PAGE, np.float16)
        piece[_bits(entry_bits)] = values[_codes(packed, entry, last)]
        pages[8 * start + kept_pages] = piece.view(pages.dtype)
        page, entry = page + len(kept_pages), last


def _bits(packed: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return np.unpackbits(packed, bitorder="little").view(np.bool_)


def _codes(packed: _Packed, first: int, last: int) -> NDArray[np.uint16]:
    """Return the codes of the kept entries `first` to `last`; `upper_codes` has bits of two in a byte."""
    pairs = packed.upper_codes[first // 2 : (last + 1) // 2]
    upper = np.stack([pairs & 15, pairs >> 4], axis=1).reshape(-1)[first % 2 :][: last - first]
    codes = upper.astype(np.uint16)
    codes <<= 8
    codes |= packed.lower_codes[first:last]
    return codes
