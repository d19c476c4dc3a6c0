"""N-tuple tables in a few bytes an entry: a static function from table entries to codes of their values.

Few entries of a trained network are ever read. These are kept in slots of 24 bits, without their numbers: the
code of an entry is the XOR of three slots and of a fingerprint, at places that a hash of its number gives.
An entry that was left out gives a random number of 24 bits. If that is no code, it reads as 0. With 1,024
codes, one of 16,384 such entries reads as something else; with slots of 16 bits one of 64 did, and cost more
than the rounding. The structure is a Bloomier filter (Chazelle, Kilian, Rubinfeld and Tal, SODA 2004) with
the places of a binary fuse filter (Graf and Lemire, "Binary Fuse Filters", JEA 2022). A published model keeps
its slots in the graph, so this reads models, too.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

SEGMENT_BITS = 16
"""A segment has 2**16 slots; the three slots of an entry lie in three neighbouring segments."""
SLOT_BYTES = 3
MULTIPLIERS = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35, 0x27D4EB2F, 0x165667B1)
"""Odd numbers; the first two scramble an entry's number, the others draw places and fingerprint from it."""
FORMAT = 1
CARD_FIELD = "compact_tables"
CARD_FILE = "card.json"

_LARGEST_CARD = 1 << 20  # bytes
_LARGEST_MODEL = 1 << 31
_LARGEST_ENTRIES = 1 << 31  # of the network: a float32 each, once they are unpacked
_U = np.uint64
_WORD = _U(0xFFFFFFFF)
_SCRAMBLE_1, _SCRAMBLE_2, _PLACE_1, _PLACE_2, _FINGERPRINT = (_U(number) for number in MULTIPLIERS)


class NTupleFileError(ValueError):
    """A saved network that is missing, damaged, or of another shape than asked for."""


@dataclass(frozen=True)
class CompactTables:
    """The entries of a network of one stage that matter, and the values that they round to."""

    tuples: tuple[tuple[int, ...], ...]
    slots: NDArray[np.uint16]
    "[(segments + 2) << 16]: the lower 16 bits of each slot"
    upper_slots: NDArray[np.uint8]
    "the upper 8 bits of each"
    codebook: NDArray[np.float32]
    "the value of each code"
    seed: int
    "of the hash, a 32-bit number"
    kept: int
    "number of the entries that have a code"

    @property
    def entries(self) -> int:
        """Number of table entries of the network, those that were left out included."""
        return len(self.tuples) << 4 * len(self.tuples[0])

    def values(self) -> NDArray[np.float32]:
        """The value of every entry `[entries] float32`, 0 for those left out."""
        values = np.empty(self.entries, np.float32)
        _unpack(self.slots, self.upper_slots, self.codebook, _U(self.seed), values)
        return values

    @classmethod
    def load(cls, folder: Path) -> CompactTables:
        """Read them from the folder of a published model, such as `models/ntuple/1`.

        Raises `NTupleFileError` that says which file is wrong, and how.
        """
        card_file = folder / CARD_FILE
        card = _read(card_file, _LARGEST_CARD)
        try:
            described = json.loads(card)
            tuples = _checked_tuples(described["architecture"]["tuples"])
            compact, published = described[CARD_FIELD], described["precisions"]["fp32"]
            if compact["format"] != FORMAT:
                raise ValueError(f"format {compact['format']}, this version reads {FORMAT}")
            seed, kept = int(compact["seed"]), int(compact["kept"])
            model_file, digest = folder / Path(published["file"]).name, published["sha256"]
            model = _read(model_file, _LARGEST_MODEL)
            if hashlib.sha256(model).hexdigest() != digest:
                raise NTupleFileError(f"{model_file}: damaged; its SHA-256 is not the one in {CARD_FILE}")
            slots = _array(model, compact["slots"], np.dtype("<u2"))
            upper_slots = _array(model, compact["upper_slots"], np.dtype("u1"))
            codebook = _array(model, compact["codebook"], np.dtype("<f4"))
            _check(slots, upper_slots, codebook, seed)
        except NTupleFileError:
            raise
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise NTupleFileError(f"{card_file}: not the card of an n-tuple model ({error!r})") from error
        return cls(tuples, slots, upper_slots, codebook, seed, kept)


def is_compact(folder: Path) -> bool:
    """Whether a folder is that of a published model."""
    return (folder / CARD_FILE).exists()


def _read(file: Path, largest: int) -> bytes:
    try:
        if not file.is_file():
            raise NTupleFileError(f"{file}: no such file")
        with file.open("rb") as opened:
            content = opened.read(largest + 1)
    except OSError as error:
        raise NTupleFileError(f"{file}: {error.strerror}") from error
    if len(content) > largest:
        raise NTupleFileError(f"{file}: larger than {largest:,} bytes")
    return content


def _checked_tuples(listed: Any) -> tuple[tuple[int, ...], ...]:
    tuples = tuple(tuple(int(cell) for cell in cells) for cells in listed)
    lengths = {len(cells) for cells in tuples}
    if len(lengths) != 1 or not 1 <= min(lengths) <= 6:
        raise ValueError("tuples are of one length, from 1 to 6 cells")
    if any(not 0 <= cell < 16 for cells in tuples for cell in cells):
        raise ValueError("cells are numbered from 0 to 15")
    if len(tuples) << 4 * min(lengths) > _LARGEST_ENTRIES:
        raise ValueError(f"{len(tuples)} tuples of {min(lengths)} cells are too many")
    return tuples


def _array(model: bytes, place: Any, kind: np.dtype[Any]) -> NDArray[Any]:
    """A copy of the array that lies at `place` in the file of a model."""
    offset, count = int(place["offset"]), int(place["count"])
    if not 0 <= offset <= offset + count * kind.itemsize <= len(model):
        raise ValueError(f"{count} numbers at {offset} are not in a model of {len(model)} bytes")
    return np.frombuffer(model, kind, count, offset).astype(kind.newbyteorder("="))


def _check(
    slots: NDArray[np.uint16], upper_slots: NDArray[np.uint8], codebook: NDArray[np.float32], seed: int
) -> None:
    if len(slots) < 3 << SEGMENT_BITS or len(slots) % (1 << SEGMENT_BITS):
        raise ValueError(f"{len(slots)} slots are not three or more whole segments")
    if len(upper_slots) != len(slots):
        raise ValueError(f"{len(slots)} slots have {len(upper_slots)} upper bytes")
    if not 1 <= len(codebook) <= 1 << 16:
        raise ValueError(f"a codebook of {len(codebook)} values")
    if not np.isfinite(codebook).all():
        raise ValueError("the codebook holds values that are not finite numbers")
    if not 0 <= seed <= 0xFFFFFFFF:
        raise ValueError(f"seed {seed} does not fit 32 bits")


@njit(cache=True, nogil=True)
def places(entry, seed, segments):
    """The three slots of an entry, and its fingerprint of 24 bits."""
    mixed = (entry * _SCRAMBLE_1 + seed) & _WORD
    mixed ^= mixed >> _U(15)
    mixed = mixed * _SCRAMBLE_2 & _WORD
    mixed ^= mixed >> _U(13)
    segment = ((mixed >> _U(16)) * segments) & _U(0xFFFF0000)  # the first slot of one of the segments
    first = segment + (mixed & _U(0xFFFF))
    second = segment + _U(1 << 16) + ((mixed * _PLACE_1 & _WORD) >> _U(16))
    third = segment + _U(2 << 16) + ((mixed * _PLACE_2 & _WORD) >> _U(16))
    return first, second, third, (mixed * _FINGERPRINT & _WORD) >> _U(8)


@njit(cache=True, nogil=True, parallel=True)
def _unpack(slots, upper_slots, codebook, seed, values):
    segments = _U((len(slots) >> SEGMENT_BITS) - 2)
    for entry in prange(len(values)):
        first, second, third, fingerprint = places(_U(entry), seed, segments)
        upper = _U(upper_slots[first] ^ upper_slots[second] ^ upper_slots[third])
        code = _U(slots[first] ^ slots[second] ^ slots[third]) ^ upper << _U(16) ^ fingerprint
        values[entry] = codebook[code] if code < _U(len(codebook)) else np.float32(0)
