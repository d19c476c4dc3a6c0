"""The reports of a run in the forms of other programs: CSV for spreadsheets, event files for TensorBoard."""

from __future__ import annotations

import csv
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from octofold_game.files import whole_file

Report = Mapping[str, Any]


def write_csv(reports: Sequence[Report], file: Path) -> None:
    """Write reports as rows, with the names of their fields on top; None is an empty cell."""
    if not reports:
        return
    with whole_file(file) as partial, partial.open("w", newline="", encoding="utf-8") as opened:
        rows = csv.DictWriter(opened, list(reports[-1]), extrasaction="ignore", restval="")
        rows.writeheader()
        rows.writerows(reports)


def by_epoch(reports: Sequence[Report]) -> list[Report]:
    """One report for each epoch: loss and accuracy averaged over its positions, all else as at its end.

    No report may reach over the end of an epoch.
    """
    found: list[Report] = []
    before = 0
    for number, group in groupby(reports, lambda report: math.ceil(report["epoch"])):
        parts = list(group)
        sizes = [end - start for start, end in pairwise([before, *(part["positions"] for part in parts)])]
        weighted = {
            name: sum(part[name] * size for part, size in zip(parts, sizes, strict=True))
            for name in ("loss", "accuracy")
        }
        averages = {name: round(total / sum(sizes), 5) for name, total in weighted.items()}
        found.append({**parts[-1], "epoch": number, **averages})
        before = parts[-1]["positions"]
    return found


class EventFile:
    """The numbers of a run's reports for TensorBoard; the step is the position.

    The format is TensorFlow's: records with their length and two masked CRC-32C checksums, each an `Event`
    message. It needs no package to be written.
    """

    def __init__(self, folder: Path, reports: Sequence[Report]) -> None:
        """Begin the file of `folder` anew, with the reports so far."""
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "events.out.tfevents.0.octofold"
        version = _field(3, b"brain.Event:2")
        with whole_file(self._file) as partial:
            partial.write_bytes(b"".join([_record(version), *map(_record, map(_event, reports))]))

    def append(self, report: Report) -> None:
        """Add a report."""
        with self._file.open("ab") as opened:
            opened.write(_record(_event(report)))


def _event(report: Report) -> bytes:
    """An `Event`: the seconds of the run (1) as its time, the step (2), and a summary (5) of the numbers."""
    values = b"".join(
        _field(1, _field(1, name.encode()) + struct.pack("<Bf", 2 << 3 | 5, value))
        for name, value in report.items()
        if isinstance(value, int | float) and name not in ("positions", "seconds")
    )
    head = struct.pack("<Bd", 1 << 3 | 1, report["seconds"]) + bytes([2 << 3]) + _varint(report["positions"])
    return head + _field(5, values)


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes, text or a message in the encoding of protocol buffers."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def _record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return b"".join([length, _checksum(length), content, _checksum(content)])


def _checksum(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(content: bytes) -> int:
    """The checksum of Castagnoli's polynomial."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _crc_table() -> Iterator[int]:
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        yield crc


_CRC_TABLE = tuple(_crc_table())
