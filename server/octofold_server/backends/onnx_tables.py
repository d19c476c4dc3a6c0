"""Unpacks the compact tables of an n-tuple graph once for all sessions and processes on this machine.

A published graph holds compact tables (`octofold_players.ntuple.compact_tables`), which keep only the entries
that matter, and the nodes that unpack them. onnxruntime runs these nodes when it makes a session, so each
session has its own tables, and needs gigabytes for some seconds. This module unpacks only pages with kept
entries. These pages, and an index of all pages, become inputs of the graph. All other pages share one page of
zeros: the tables of `models/ntuple` take 204 MB, a quarter of what all entries would take. Sessions do not
copy inputs, so lanes, views and processes share the tables.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.graph import UNPACKED_TABLES
from octofold_game.system.files import atomic_write
from octofold_proto.onnx import graph_pb2 as onnx

from octofold_server.backends.onnx_pruning import parsed, prune
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
"""Number of entries in a page. The tables take 5% more memory with pages of 16 entries, and 14% more with
pages of 64 entries. The boards/s differ by less than 2%."""

_BITS = ("bits_512", "bits_64", "bits_8", "bits_1")
_PACKED = (*_BITS, "codes", "precise", "corrections", "codebook", "correction_steps")
_BLOCK = 512  # number of entries in the largest blocks of compact tables
_PIECE = 1 << 11  # bytes of the first bitmap to unpack at a time: 8 million entries
_VALUES = 1 << 8  # number of values in the codebook
_INT32, _INT64, _FLOAT16 = 6, 7, 10  # numbers of element types in an ONNX file
_FLAT, _PAGE_SIZE = "octofold_flat", "octofold_page_size"

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_unpacked: WeakValueDictionary[str, Tables] = WeakValueDictionary()
"""The unpacked tables that are in use, by the digest of the packed tables; guarded by `_lock`."""


class _Packed(NamedTuple):
    """The arrays of `octofold_players.ntuple.compact_tables.CompactTables`."""

    bits: tuple[NDArray[np.uint8], ...]
    codes: NDArray[np.uint8]
    precise: NDArray[np.uint8]
    corrections: NDArray[np.int8]
    codebook: NDArray[np.float32]
    correction_steps: NDArray[np.float32]

    def digest(self) -> str:
        """Return the digest of everything that the unpacked tables depend on."""
        digest = hashlib.sha256()
        arrays: tuple[NDArray[Any], ...] = (*self.bits, self.codes, self.precise, self.corrections)
        for array in (*arrays, self.codebook, self.correction_steps):
            digest.update(array.data)
        return digest.hexdigest()


def without_tables(model: bytes, shared: Path | None) -> tuple[bytes, Tables]:
    """Replace the compact tables of a graph by inputs; return this graph, and the tables for the inputs.

    A graph without valid compact tables is returned unchanged, with empty `Tables`. Raises `GraphError` if
    the graph is not valid ONNX.

    Args:
        model: the graph.
        shared: folder in which the processes of a service share the tables; None if there is only one
            process.
    """
    if UNPACKED_TABLES.encode() not in model:
        return model, Tables()
    changed = parsed(model)
    graph = changed.graph
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
    return changed.SerializeToString(), tables


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
    if len(kept) < len(_PACKED):
        return None
    arrays = [np.frombuffer(kept[name], np.uint8) for name in _PACKED]
    bits, (codes, precise, corrections, codebook, steps) = tuple(arrays[: len(_BITS)]), arrays[len(_BITS) :]
    sizes = [int(np.bitwise_count(level).sum()) for level in (*bits, precise)]
    fits = sizes == [*(len(level) for level in bits[1:]), len(codes), len(corrections)]
    if not fits or 8 * len(precise) != len(codes) or {len(codebook), len(steps)} != {4 * _VALUES}:
        return None
    return _Packed(bits, codes, precise, corrections.view("i1"), codebook.view("<f4"), steps.view("<f4"))


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
    is_kept = np.zeros(_page_count(packed), np.bool_)
    for entries in _kept_entries(packed):
        is_kept[entries // PAGE] = True
    offsets = np.cumsum(is_kept, dtype=np.int32)  # so far, the indices of the kept pages in `pages`
    pages = np.zeros((1 + offsets[-1]) * PAGE, np.float16)
    offsets *= is_kept
    offsets -= np.arange(len(offsets), dtype=np.int32)
    offsets *= PAGE
    values = _kept_values(packed)
    first = 0
    for entries in _kept_entries(packed):
        pages[entries + offsets[entries // PAGE]] = values[first : first + len(entries)]
        first += len(entries)
    return Tables({PAGE_OFFSETS: offsets, PAGES: pages})


def _in_file(packed: _Packed, file: Path) -> Tables:
    """Return tables in a file that all processes map; in private memory if the file cannot be used."""
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
    offsets = _page_count(packed) * np.dtype(np.int32).itemsize
    return Tables({PAGE_OFFSETS: mapped[:offsets].view(np.int32), PAGES: mapped[offsets:].view(np.float16)})


def _page_count(packed: _Packed) -> int:
    return len(packed.bits[0]) * 8 * _BLOCK // PAGE


def _kept_entries(packed: _Packed) -> Iterator[NDArray[np.int64]]:
    """Yield the indices of the kept entries in ascending order, in arrays of limited size."""
    firsts = [0] * len(_BITS)
    for start in range(0, len(packed.bits[0]), _PIECE):
        blocks = np.arange(start, min(start + _PIECE, len(packed.bits[0])))
        for level, bits in enumerate(packed.bits):
            first, last = firsts[level], firsts[level] + len(blocks)
            smaller = np.flatnonzero(np.unpackbits(bits[first:last], bitorder="little"))
            blocks = 8 * blocks[smaller // 8] + smaller % 8
            firsts[level] = last
        yield blocks


def _kept_values(packed: _Packed) -> NDArray[np.float16]:
    values = packed.codebook[packed.codes]
    precise = np.unpackbits(packed.precise, bitorder="little").view(np.bool_)
    values[precise] += packed.correction_steps[packed.codes[precise]] * packed.corrections
    return values.astype(np.float16)
