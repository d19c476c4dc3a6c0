"""N-tuple tables with two bytes per entry: bitmaps of the kept entries, and codes of their values.

Games read few entries of a trained network. A page is 16 neighboring entries, which differ only in the first
cell of their tuple. One bit for each page tells whether any of its entries is kept, and 16 bits for each kept
page tell which entries. The values of the kept entries are rounded to the 4096 values of a codebook and
stored in order, as 12-bit codes. A published model keeps these arrays in its graph, which unpacks them when
it is loaded. This module reads them from there.
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

PAGE = 16
"""Number of entries in a page."""
CODES = 1 << 12
"""Number of values in a codebook."""
NETWORK_FILE = "network.json"
"""Name of the file that describes a network whose tables are not compact."""
FORMAT = 1
ARRAYS = {"page_bits": "u1", "entry_bits": "u1", "lower_codes": "u1", "upper_codes": "u1", "codebook": "<f4"}
"""The arrays of `CompactTables`, and the types of their numbers in the file of a graph."""

_PAGES_AT_ONCE = 1 << 16
_LARGEST_ENTRIES = 1 << 31  # maximum number of entries of a network; each takes 4 bytes when unpacked


@dataclass(frozen=True)
class CompactTables:
    """The entries of a network that matter for play, with rounded values."""

    FILES: ClassVar[tuple[str, ...]] = ("network-card.json", "network.onnx")
    """Names of the files with the card and the graph of an n-tuple model in the folder of a player."""

    tuples: tuple[tuple[int, ...], ...]
    page_bits: NDArray[np.uint8]
    """[entries / 128]: a bit for each page, 1 if the page is kept; lowest bit first."""
    entry_bits: NDArray[np.uint8]
    """[2 * pages]: a bit for each entry of the kept pages, 1 if the entry is kept; lowest bit first."""
    lower_codes: NDArray[np.uint8]
    """[kept]: the lower 8 bits of each entry's code."""
    upper_codes: NDArray[np.uint8]
    """[kept / 2]: the upper 4 bits of two codes, the first code in the lower half; `kept` is even."""
    codebook: NDArray[np.float32]
    """[4096]: the value of each code."""
    stages: tuple[int, ...] = ()
    """The stages, as in `octofold_players.ntuple.network.NTupleNetwork`."""

    @property
    def entries(self) -> int:
        """Number of table entries of the network, including omitted ones."""
        return (len(self.stages) + 1) * len(self.tuples) << 4 * len(self.tuples[0])

    @property
    def kept(self) -> int:
        """Number of kept entries."""
        return len(self.lower_codes)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(getattr(self, name).nbytes for name in ARRAYS)

    def values(self) -> NDArray[np.float32]:
        """Return the value of every entry, `[entries] float32`. Omitted entries are 0."""
        places, pages = self.pages()
        return pages.reshape(-1, PAGE)[places].reshape(-1)

    def pages(self) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """Return the index of each page, `[entries / PAGE] uint32`, and the values of the kept pages.

        The values are `[PAGE * (kept pages + 1)] float32`. Page 0 has only zeros and stands for all omitted
        pages.
        """
        codes = self.lower_codes.astype(np.uint16)
        codes[::2] += (self.upper_codes & 15) * np.uint16(256)
        codes[1::2] += (self.upper_codes >> 4) * np.uint16(256)
        pages = np.zeros((len(self.entry_bits) // 2 + 1, PAGE), np.float32)
        filled = 0
        for start in range(1, len(pages), _PAGES_AT_ONCE):
            kept = unpacked(self.entry_bits[2 * start - 2 :][: 2 * _PAGES_AT_ONCE]).reshape(-1, PAGE)
            number = int(np.count_nonzero(kept))
            pages[start:][: len(kept)][kept] = self.codebook[codes[filled : filled + number]]
            filled += number
        is_kept = unpacked(self.page_bits)
        places = np.cumsum(is_kept, dtype=np.uint32)
        places[~is_kept] = 0
        return places, pages.reshape(-1)

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
        return cls._in([mapped(file) for file in files.values()], list(files.values()))

    @classmethod
    def read(cls, files: Mapping[str, NDArray[np.uint8]]) -> CompactTables:
        """Read the tables from the bytes of each of `FILES`. Raises `TableFileError`, as `files_in` does."""
        return cls._in([files[name] for name in cls.FILES], cls.FILES)

    @classmethod
    def _in(cls, contents: Sequence[NDArray[np.uint8]], names: Sequence[object]) -> CompactTables:
        (card_text, model), (card_name, model_name) = contents, names
        try:
            card = parse_card(card_text[:MAX_CARD_BYTES].tobytes().decode())
            places = card.compact_tables
            if places is None:
                raise ValueError("it has no compact tables")
            tuples, stages = _check_architecture(card.architecture["tuples"], card.architecture["stages"])
            if places.format != FORMAT:
                raise ValueError(f"format must be {FORMAT}, got {places.format}")
            if hashlib.sha256(model.data).hexdigest() != card.precisions["fp32"].sha256.lower():
                raise TableFileError(f"{model_name}: damaged; its SHA-256 is not the one in {card_name}")
            arrays = {name: _array(model, getattr(places, name), kind) for name, kind in ARRAYS.items()}
            tables = cls(tuples, **arrays, stages=stages)
            _check_sizes(tables)
        except CardError as error:
            raise TableFileError(f"{card_name}: {error}") from error
        except TableFileError:
            raise
        except BAD_JSON as error:
            raise TableFileError(f"{card_name}: not the card of an n-tuple model ({error})") from error
        return tables


def unpacked(bits: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Unpack bits `[M] uint8` into booleans `[8 * M]`."""
    return np.unpackbits(bits, bitorder="little").view(np.bool_)


def is_compact(folder: Path) -> bool:
    """Return whether a published folder has compact tables: it has a card, but no `network.json`."""
    return (folder / CARD_FILE).exists() and not (folder / NETWORK_FILE).exists()


def _check_architecture(
    card_tuples: Any, card_stages: Any
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Check the tuples and the stages of a card, and return them."""
    tuples, stages = tuple(tuple(cells) for cells in card_tuples), tuple(card_stages)
    check_tuples(tuples)
    check_stages(stages)
    length = len(tuples[0])
    if not 2 <= length <= 6:
        raise ValueError(f"tuples must have 2 to 6 cells, got {length}")
    if (len(stages) + 1) * len(tuples) << 4 * length > _LARGEST_ENTRIES:
        raise ValueError(f"{len(tuples)} tuples of {length} cells in {len(stages) + 1} stages are too large")
    return tuples, stages


def _array(model: NDArray[np.uint8], place: Place, kind: str) -> NDArray[Any]:
    """Return a copy of the array at `place` in the file of a model."""
    dtype = np.dtype(kind)
    if place.offset + place.count * dtype.itemsize > len(model):
        raise ValueError(f"{place.count} numbers at {place.offset} exceed the model's {len(model)} bytes")
    return np.frombuffer(model, dtype, place.count, place.offset).astype(dtype.newbyteorder("="))


def _check_sizes(tables: CompactTables) -> None:
    if len(tables.page_bits) * 8 * PAGE != tables.entries:
        raise ValueError(f"{len(tables.page_bits)} bytes of page bits do not match {tables.entries} entries")
    pages, kept = (int(np.bitwise_count(bits).sum()) for bits in (tables.page_bits, tables.entry_bits))
    if len(tables.entry_bits) != 2 * pages:
        raise ValueError(f"{len(tables.entry_bits)} bytes of entry bits do not match {pages} pages")
    if len(tables.lower_codes) != kept or 2 * len(tables.upper_codes) != kept:
        raise ValueError(
            f"{len(tables.lower_codes)} bytes of lower codes and {len(tables.upper_codes)} of upper codes do "
            f"not match {kept} entries"
        )
    if len(tables.codebook) != CODES or not np.isfinite(tables.codebook).all():
        raise ValueError(f"the codebook must be {CODES} finite numbers")
