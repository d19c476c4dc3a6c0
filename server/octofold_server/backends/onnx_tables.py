"""Unpacks the compact tables of an n-tuple graph once for all sessions and processes on this machine.

A published graph holds compact tables (`octofold_players.ntuple.compact_tables`), which keep only the entries
that matter, and the nodes that unpack them. onnxruntime runs these nodes when it makes a session, so each
session has its own tables, and needs gigabytes for some seconds. This module unpacks only pages with kept
entries. These pages, and an index of all pages, become inputs of the graph. All other pages share one page of
zeros: the tables of `models/ntuple` take 158 MB, a fifth of what all entries would take. Sessions do not copy
inputs, so lanes, views and processes share the tables.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import UNPACKED_TABLES
from octofold_game.system.files import atomic_write
from octofold_proto.onnx import graph_pb2 as onnx

from octofold_server.backends.onnx_pruning import prune
from octofold_server.system.file_lock import locked

PAGE_OFFSETS, PAGES = "octofold_page_offsets", "octofold_pages"
"""Names of the two inputs that the graph gets."""


class Tables(dict[str, NDArray[Any]]):
    """The tables of a graph by the name of their input; empty for a graph that has none.

    `PAGES` [PAGE * pages] float16 are a page of zeros, and then the pages with kept entries. `PAGE_OFFSETS`
    [entries / PAGE] int32 has a number for each page of the full tables: the index of an entry in the full
    tables, plus this number, is its index in `PAGES`.
    """


PAGE = 32
"""Number of entries in a page. The tables take 15% more memory with pages of 16 entries, and 9% more with
pages of 64 entries. The boards/s differ by less than 2%."""

_PACKED = ("page_bits", "entry_bits", "lower_codes", "upper_codes", "codebook")
_PACKED_PAGE = 16  # number of entries in a page of compact tables
_PIECE = 1 << 15  # bytes of `page_bits` to unpack at a time, into 8 MB
_VALUES = 1 << 12  # number of values in the codebook
_INT32, _INT64, _FLOAT16 = 6, 7, 10  # numbers of element types in an ONNX file
_FLAT, _PAGE_SIZE = "octofold_flat", "octofold_page_size"

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_unpacked: WeakValueDictionary[str, Tables] = WeakValueDictionary()
"""The unpacked tables that are in use, by the digest of the packed tables; guarded by `_lock`."""


class _Packed(NamedTuple):
    """The arrays of `octofold_players.ntuple.compact_tables.CompactTables`."""

    page_bits: NDArray[np.uint8]
    entry_bits: NDArray[np.uint8]
    lower_codes: NDArray[np.uint8]
    upper_codes: NDArray[np.uint8]
    codebook: NDArray[np.float32]

    def digest(self) -> str:
        """Return the digest of everything that the unpacked tables depend on."""
        digest = hashlib.sha256()
        for array in self:
            digest.update(array.data)
        return digest.hexdigest()


def without_tables(model: bytes, shared: Path | None) -> tuple[bytes, Tables]:
    """Replace the compact tables of a graph by inputs; return this graph, and the tables for the inputs.

    A graph without compact tables is returned unchanged, with empty `Tables`.

    Args:
        model: the graph.
        shared: folder in which the processes of a service share the tables; None if there is only one
            process.
    """
    if UNPACKED_TABLES.encode() not in model:
        return model, Tables()
    parsed = onnx.Model.FromString(model)
    graph = parsed.graph
    packed = _packed_tables(graph)
    if packed is None:
        return model, Tables()
    tables = _shared_tables(packed, shared)
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        graph.node.extend(_lookup(node) if UNPACKED_TABLES in node.input else [node])
    graph.initializer.add(name=_FLAT, data_type=_INT64, dims=[1], raw_data=np.int64(-1).tobytes())
    graph.initializer.add(name=_PAGE_SIZE, data_type=_INT32, raw_data=np.int32(PAGE).tobytes())
    prune(graph)
    for (name, table), kind in zip(tables.items(), (_INT32, _FLOAT16), strict=True):
        shape = onnx.Shape(dim=[onnx.Shape.Dimension(dim_value=len(table))])
        graph.input.add(
            name=name, type=onnx.Type(tensor_type=onnx.Type.TensorType(elem_type=kind, shape=shape))
        )
    return parsed.SerializeToString(), tables


def _lookup(gather: onnx.Node) -> list[onnx.Node]:
    """Return the nodes that look up entries in pages, in place of a Gather from the unpacked tables.

    GatherElements, which takes flat indices here, copies single numbers six times as fast as Gather.
    """
    entries, (output,) = gather.input[1], gather.output
    flat, page, offset, place, found, shape = (
        f"octofold_{output}_{name}" for name in ("flat", "page", "offset", "place", "found", "shape")
    )
    return [
        onnx.Node(op_type=kind, input=inputs, output=[result])
        for kind, inputs, result in (
            ("Reshape", [entries, _FLAT], flat),
            ("Div", [flat, _PAGE_SIZE], page),
            ("GatherElements", [PAGE_OFFSETS, page], offset),
            ("Add", [flat, offset], place),
            ("GatherElements", [PAGES, place], found),
            ("Shape", [entries], shape),
            ("Reshape", [found, shape], output),
        )
    ]


def _packed_tables(graph: onnx.Graph) -> _Packed | None:
    """Return the packed tables of a graph; None if it has none, or if their sizes contradict each other."""
    kept = {packed.name: packed.raw_data for packed in graph.initializer if packed.name in _PACKED}
    if len(kept) < len(_PACKED) or len(kept["codebook"]) % 4:
        return None
    arrays = [np.frombuffer(kept[name], np.uint8) for name in _PACKED]
    packed = _Packed(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4].view("<f4"))
    pages, count = (int(np.bitwise_count(bits).sum()) for bits in (packed.page_bits, packed.entry_bits))
    codes = {len(packed.lower_codes), 2 * len(packed.upper_codes)}
    fits = len(packed.entry_bits) == 2 * pages and codes == {count} and len(packed.codebook) == _VALUES
    return packed if fits else None


def _shared_tables(packed: _Packed, folder: Path | None) -> Tables:
    """Return the unpacked tables; unpack them if this process does not have them yet."""
    digest = packed.digest()
    with _lock:
        tables = _unpacked.get(digest)
        if tables is None:
            tables = _in_memory(packed) if folder is None else _in_file(packed, folder / f"{digest}.tables")
            _unpacked[digest] = tables
    return tables


def _in_memory(packed: _Packed) -> Tables:
    kept = _bits(packed.page_bits).reshape(-1, PAGE // _PACKED_PAGE).any(axis=1)
    offsets = np.cumsum(kept, dtype=np.int32)  # so far, the indices of the kept pages in `pages`
    pages = np.zeros((1 + offsets[-1]) * PAGE, np.float16)
    offsets *= kept
    offsets -= np.arange(len(offsets), dtype=np.int32)
    offsets *= PAGE
    _fill(packed, offsets, pages)
    return Tables({PAGE_OFFSETS: offsets, PAGES: pages})


def _in_file(packed: _Packed, file: Path) -> Tables:
    """Return tables in a file that all processes map, or in private memory if the disk is full."""
    try:
        with locked(file.with_suffix(".lock"), lambda: None):
            if not file.exists():
                tables = _in_memory(packed)
                with atomic_write(file) as partial, partial.open("wb") as made:
                    for table in tables.values():
                        made.write(table.data)
        mapped = np.asarray(np.memmap(file, np.uint8, "r"))
    except OSError as error:
        _log.warning("the processes cannot share tables, so each uses its own memory: %s", error)
        return _in_memory(packed)
    offsets = len(packed.page_bits) * 8 * _PACKED_PAGE // PAGE * np.dtype(np.int32).itemsize
    return Tables({PAGE_OFFSETS: mapped[:offsets].view(np.int32), PAGES: mapped[offsets:].view(np.float16)})


def _fill(packed: _Packed, offsets: NDArray[np.int32], pages: NDArray[np.float16]) -> None:
    """Write the kept entries into pages of zeros, a piece at a time."""
    places = pages.view(f"V{2 * _PACKED_PAGE}")
    values = packed.codebook.astype(np.float16)
    page = entry = 0  # indices of the next kept page and the next kept entry
    for start in range(0, len(packed.page_bits), _PIECE):
        kept_pages = 8 * start + np.flatnonzero(_bits(packed.page_bits[start : start + _PIECE]))
        entry_bits = packed.entry_bits[2 * page : 2 * (page + len(kept_pages))]
        last = entry + int(np.bitwise_count(entry_bits).sum())
        piece = np.zeros(len(kept_pages) * _PACKED_PAGE, np.float16)
        piece[_bits(entry_bits)] = values[_codes(packed, entry, last)]
        moved = offsets[kept_pages * _PACKED_PAGE // PAGE] // _PACKED_PAGE
        places[kept_pages + moved] = piece.view(places.dtype)
        page, entry = page + len(kept_pages), last


def _bits(packed: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return np.unpackbits(packed, bitorder="little").view(np.bool_)


def _codes(packed: _Packed, first: int, last: int) -> NDArray[np.uint16]:
    """Return the codes of the kept entries `first` to `last` - 1; `upper_codes` has two codes per byte."""
    pairs = packed.upper_codes[first // 2 : (last + 1) // 2]
    upper = np.stack([pairs & 15, pairs >> 4], axis=1).reshape(-1)[first % 2 :][: last - first]
    codes = upper.astype(np.uint16)
    codes <<= 8
    codes |= packed.lower_codes[first:last]
    return codes
