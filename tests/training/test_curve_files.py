"""Curves for other programs: TensorBoard's event files, read again by the definition of their format."""

import struct
from pathlib import Path
from typing import Any

from octofold_training.curve_files import EventFile, crc32c

REPORTS: list[dict[str, Any]] = [
    {"seconds": 1.5, "positions": 300, "loss": 0.5, "accuracy": None},
    {"seconds": 2.5, "positions": 2**33, "loss": 0.25, "accuracy": 0.75},
]


def fields(message: bytes) -> list[tuple[int, Any]]:
    """Numbers and values of the fields of a message of protocol buffers."""
    found: list[tuple[int, Any]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            found.append((number, varint()))
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            content, at = message[at : at + size], at + size
            value = struct.unpack({1: "<d", 5: "<f"}[kind], content)[0] if kind in (1, 5) else content
            found.append((number, value))
    return found


def records(file: Path) -> list[bytes]:
    content, found = file.read_bytes(), []
    while content:
        (size,) = struct.unpack("<Q", content[:8])
        event, rest = content[12 : 12 + size], content[12 + size :]
        for part, checksum in ((content[:8], content[8:12]), (event, rest[:4])):
            crc = crc32c(part)
            assert struct.unpack("<I", checksum)[0] == ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
        found.append(event)
        content = rest[4:]
    return found


def scalars(file: Path) -> list[tuple[int, dict[str, float]]]:
    version, *events = map(fields, records(file))
    assert version == [(3, b"brain.Event:2")]
    found = []
    for event in events:
        parts = dict(event)
        values = [dict(fields(value)) for _, value in fields(parts[5])]
        found.append((parts[2], {value[1].decode(): value[2] for value in values}))
    return found


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_events_hold_the_numbers_of_the_reports(tmp_path: Path) -> None:
    expected = [(300, {"loss": 0.5}), (2**33, {"loss": 0.25, "accuracy": 0.75})]
    events = EventFile(tmp_path, REPORTS[:1])
    events.append(REPORTS[1])
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("events.out.tfevents.")
    assert scalars(file) == expected
    EventFile(tmp_path, REPORTS[:1])
    assert list(tmp_path.iterdir()) == [file]
    assert scalars(file) == expected[:1]
