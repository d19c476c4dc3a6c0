"""Weight files of TDL2048 give their networks or are refused."""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_players.compiled.table_files import TableFileError
from octofold_players.ntuple.network import NTupleNetwork

TUPLES = ((0, 1, 4), (5, 9, 10))
NAMES = ("014", "59a")
VALUES = np.arange(2 * 4096, dtype=np.float32) % 997 - 100  # exact in 16 bits


def table(name: str, values: NDArray[np.floating], digits: int, learned: bytes = b"") -> bytes:
    """Return the bytes of a table in TDL2048's format."""
    head = struct.pack("<BIHHHQ", 4, int(name, 16), digits, 0, values.itemsize, len(values))
    return head + values.tobytes() + learned + bytes(2)


def weights(tables: Sequence[bytes], start: bytes = b"w\0") -> bytes:
    return start + struct.pack("<I", len(tables)) + b"".join(tables)


def test_a_weight_file_is_read_in_all_its_forms(tmp_path: Path) -> None:
    file = tmp_path / "2x3patt.w"
    learned = struct.pack("<HQ", 4, 2 * 4096) + bytes(4 * 2 * 4096)
    for kind, start, digits, more in (
        ("f4", b"w\0", 3, b""),
        ("f2", b"\0", 0, b""),
        ("f8", b"w\0", 3, learned),
    ):
        halves = VALUES.astype(f"<{kind}").reshape(2, -1)
        tables = [table(name, each, digits, more) for name, each in zip(NAMES, halves, strict=True)]
        file.write_bytes(weights(tables, start))
        network = NTupleNetwork.load(file)
        assert network.tuples == TUPLES
        assert (network.values == VALUES).all()


SMALL = VALUES[:4096]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x93NUMPY", "its first number must be 0, got 147"),
        (weights([table("014", SMALL, 3)])[:-3000], "at least 16,409 bytes, got 13,411"),
        (b"w\0" + struct.pack("<IBIHHHQ", 1, 4, 0x14, 3, 0, 4, 1 << 60), "is not the table of a tuple"),
        (b"w\0" + struct.pack("<IBIHHHQ", 1, 4, 0x14, 3, 0, 4, 1 << 28), "at least 1,073,741,849 bytes"),
        (weights([table("014", SMALL, 3)] * 2), "two tables have the same cells"),
        (weights([table("410", SMALL, 3)]), "ascending order"),
        (weights([table("10000014", SMALL, 8)]), "the table 10000014"),  # a late stage
        (weights([struct.pack("<B8sHQ", 4, b"m@0123  ", 4, 4096) + SMALL.tobytes() + bytes(2)]), "a tuple"),
        (weights([table("014", np.full(4096, np.nan, np.float32), 3)]), "not finite numbers"),
    ],
)
def test_another_file_is_refused_with_a_reason(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "other.w"
    file.write_bytes(content)
    with pytest.raises(TableFileError, match=message) as refused:
        NTupleNetwork.load(file)
    assert str(refused.value).startswith(f"{file}: ")
