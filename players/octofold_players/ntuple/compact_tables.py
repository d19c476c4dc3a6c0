"""N-tuple tables with two bytes per kept entry: bitmaps of the kept entries, and codes of their values.

Games read few entries of a trained network, and these entries are close together. Four levels of bitmaps tell
which entries are kept. One bit for each block of 512 neighboring entries tells whether any of them is kept.
For each kept block, eight bits tell which of its blocks of 64 entries are kept, and so on, down to blocks of
8 entries and to single entries.

The values of the kept entries are rounded to the 256 values of a codebook and stored in order, as codes of
one byte. Games read a small part of the entries very often. A bit for each kept entry tells whether it
belongs to this part. If so, a second byte corrects the rounding error.

A published model keeps these arrays in its graph, which unpacks them when it is loaded. This module reads
them from there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import CARD_FILE, MAX_CARD_BYTES, CardError, Place, parse_card, read_card

from octofold_players.compiled.table_files import BAD_JSON, TableFileError, mapped
from octofold_players.ntuple.tuples import check_stages, check_tuples

BLOCKS = (512, 64, 8, 1)
"""Number of entries of a block on each level of bitmaps. A bit of the last level stands for one entry."""
CODES = 1 << 8
"""Number of values in a codebook."""
UNIT = 8
"""Points per unit of stored values. The unpacked tables of a graph are float16 in this unit, so they hold
values up to 524,032 points."""
PAGE = 16
"""Number of entries in a page of `CompactTables.pages`."""
NETWORK_FILE = "network.json"
"""Name of the file that describes a network whose tables are not compact."""
FORMAT = 2
ARRAYS = {f"bits_{size}": "u1" for size in BLOCKS} | {
    "codes": "u1",
    "precise": "u1",
    "corrections": "i1",
    "codebook": "<f4",
    "correction_steps": "<f4",
}
"""The names of the arrays of `CompactTables`, and the types of their numbers in the file of a graph."""

_LARGEST_ENTRIES = 1 << 31  # maximum number of entries of a network; each takes 4 bytes when unpacked


@dataclass(frozen=True)
class CompactTables:
    """The entries of a network that matter for play, with rounded values."""

    FILES: ClassVar[tuple[str, ...]] = ("network-card.json", "network.onnx")
    """Names under which a player's folder contains the card and the graph of an n-tuple model."""

    tuples: tuple[tuple[int, ...], ...]
    bits: tuple[NDArray[np.uint8], ...]
    """The bitmap of each level of `BLOCKS`: a bit is 1 if any entry of its block is kept; the first block has
    the lowest bit. The first level has a bit for every block of the tables. Each other level has one byte
    for each kept block of the level before."""
    codes: NDArray[np.uint8]
    """[kept]: the code of each entry; `kept` is a multiple of 8."""
    precise: NDArray[np.uint8]
    """[kept / 8]: a bit for each kept entry, 1 if it has a correction; the first entry has the lowest bit."""
    corrections: NDArray[np.int8]
    """The corrections in the order of their entries, in units of the step for the entry's code."""
    codebook: NDArray[np.float32]
    """[256]: the value of each code, in units of 8 points."""
    correction_steps: NDArray[np.float32]
    """[256]: the step of corrections for each code, in units of 8 points."""
    stages: tuple[int, ...] = ()
    """The stages, as in `octofold_players.ntuple.network.NTupleNetwork`."""

    @property
    def entries(self) -> int:
        """Number of table entries of the network, including omitted ones."""
        return (len(self.stages) + 1) * len(self.tuples) << 4 * len(self.tuples[0])

    @property
    def kept(self) -> int:
        """Number of kept entries."""
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by their names in `ARRAYS`."""
        arrays: tuple[NDArray[Any], ...] = (
            *self.bits,
            self.codes,
            self.precise,
            self.corrections,
            self.codebook,
            self.correction_steps,
        )
        return dict(zip(ARRAYS, arrays, strict=True))

    def values(self) -> NDArray[np.float32]:
        """Return the value of every entry in points, `[entries] float32`. Omitted entries are 0."""
        values = np.zeros(self.entries, np.float32)
        values[self.kept_entries()] = self._kept_values()
        return values

    def pages(self) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """Return the index of each page, `[entries / PAGE] uint32`, and the values of the kept pages.

        The values are `[PAGE * (kept pages + 1)] float32`. Page 0 has only zeros and stands for all omitted
        pages.
        """
        entries = self.kept_entries()
        is_kept = np.zeros(self.entries // PAGE, np.bool_)
        is_kept[entries // PAGE] = True
        places = np.cumsum(is_kept, dtype=np.uint32)
        places[~is_kept] = 0
        pages = np.zeros((int(places.max()) + 1, PAGE), np.float32)
        pages[places[entries // PAGE], entries % PAGE] = self._kept_values()
        return places, pages.reshape(-1)

    def kept_entries(self) -> NDArray[np.int64]:
        """Return the indices of the kept entries `[kept]`, in ascending order."""
        blocks = np.arange(len(self.bits[0]))
        for bits in self.bits:
            smaller = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            blocks = 8 * blocks[smaller // 8] + smaller % 8
        return blocks

    def _kept_values(self) -> NDArray[np.float32]:
        """Return the values of the kept entries in points, rounded as in the unpacked tables of a graph."""
        values = self.codebook[self.codes]
        precise = np.unpackbits(self.precise, bitorder="little").view(np.bool_)
        values[precise] += self.correction_steps[self.codes[precise]] * self.corrections
        return UNIT * values.astype(np.float16).astype(np.float32)

    @classmethod
    def files_in(cls, folder: Path) -> dict[str, Path]:
        """Return the path of each of `FILES` in a folder of a published player or of a published model.

        Raises `TableFileError`, which names the file and what is wrong with it.
        """
        files = {name: folder / name for name in cls.FILES}
        if files[cls.FILES[0]].exists():
            return files
        try:
            graph = read_card(folder).precisions["fp32"].file
        except CardError as error:
            raise TableFileError(f"{folder}: {error}") from error
        except KeyError as error:
            raise TableFileError(f"{folder / CARD_FILE}: not the card of an n-tuple model") from error
        return dict(zip(cls.FILES, (folder / CARD_FILE, folder / graph), strict=True))

    @classmethod
    def load(cls, folder: Path) -> CompactTables:
        """Read the tables from a folder. Raises `TableFileError`, as `files_in` does."""
        files = cls.files_in(folder)
        return cls._parse([mapped(file) for file in files.values()], list(files.values()))

    @classmethod
    def read(cls, files: Mapping[str, NDArray[np.uint8]]) -> CompactTables:
        """Read the tables from the bytes of each of `FILES`. Raises `TableFileError`, as `files_in` does."""
        return cls._parse([files[name] for name in cls.FILES], cls.FILES)

    @classmethod
    def _parse(cls, contents: Sequence[NDArray[np.uint8]], names: Sequence[object]) -> CompactTables:
        (card_text, model), (card_name, model_name) = contents, names
        try:
            card = parse_card(card_text[:MAX_CARD_BYTES].tobytes().decode())
            places = card.compact_tables
            if places is None:
                raise ValueError("the field compact_tables is missing")
            tuples, stages = _check_architecture(card.architecture["tuples"], card.architecture["stages"])
            if places.format != FORMAT:
                raise ValueError(f"format must be {FORMAT}, got {places.format}")
            if hashlib.sha256(model.data).hexdigest() != card.precisions["fp32"].sha256.lower():
                raise TableFileError(f"{model_name}: damaged; its SHA-256 is not the one in {card_name}")
            arrays = {name: _array(model, places.arrays[name], kind) for name, kind in ARRAYS.items()}
            bits = tuple(arrays.pop(f"bits_{size}") for size in BLOCKS)
            tables = cls(tuples, bits, **arrays, stages=stages)
            _check_sizes(tables)
        except CardError as error:
            raise TableFileError(f"{card_name}: {error}") from error
        except TableFileError:
            raise
        except BAD_JSON as error:
            raise TableFileError(f"{card_name}: no valid compact tables ({error})") from error
        return tables


def is_compact(folder: Path) -> bool:
    """Return whether tables of a published folder must be compact: it has a card, but no `network.json`."""
    return (folder / CARD_FILE).exists() and not (folder / NETWORK_FILE).exists()


def _check_architecture(
    card_tuples: Any, card_stages: Any
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Check the tuples and the stages of a card, and return them."""
    tuples, stages = tuple(tuple(cells) for cells in card_tuples), tuple(card_stages)
    check_tuples(tuples)
    check_stages(stages)
    length = len(tuples[0])
    if not 3 <= length <= 6:
        raise ValueError(f"tuples must have 3 to 6 cells, got {length}")
    entries = (len(stages) + 1) * len(tuples) << 4 * length
    if entries > _LARGEST_ENTRIES:
        raise ValueError(f"a network must have at most {_LARGEST_ENTRIES:,} table entries, got {entries:,}")
    return tuples, stages


def _array(model: NDArray[np.uint8], place: Place, kind: str) -> NDArray[Any]:
    """Return a copy of the array at `place` in the file of a model."""
    dtype = np.dtype(kind)
    if place.offset + place.count * dtype.itemsize > len(model):
        raise ValueError(f"{place.count} values at byte {place.offset} exceed the model's {len(model)} bytes")
    return np.frombuffer(model, dtype, place.count, place.offset).astype(dtype.newbyteorder("="))


def _check_sizes(tables: CompactTables) -> None:
    blocks = tables.entries // (8 * BLOCKS[0])
    for size, bits in zip(BLOCKS, tables.bits, strict=True):
        if len(bits) != blocks:
            raise ValueError(f"the array bits_{size} must have {blocks} bytes, got {len(bits)}")
        blocks = int(np.bitwise_count(bits).sum())
    if len(tables.codes) != blocks or 8 * len(tables.precise) != blocks:
        raise ValueError(
            f"{blocks} kept entries need as many codes and an eighth as many bytes in the array precise, got "
            f"{len(tables.codes)} and {len(tables.precise)}"
        )
    corrected = int(np.bitwise_count(tables.precise).sum())
    if len(tables.corrections) != corrected:
        raise ValueError(f"there must be {corrected} corrections, got {len(tables.corrections)}")
    for name, numbers in (("codebook", tables.codebook), ("correction_steps", tables.correction_steps)):
        if len(numbers) != CODES or not np.isfinite(numbers).all():
            raise ValueError(f"the {name} must be {CODES} finite numbers")
