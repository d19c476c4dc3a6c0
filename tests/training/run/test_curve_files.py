"""Curves for other programs: TensorBoard's event files."""

import gc
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from octofold_training.run.curves import tensorboard_events
from tensorboardX.proto.event_pb2 import Event

REPORTS: list[dict[str, Any]] = [
    {"seconds": 1.5, "positions": 300, "loss": 0.5, "accuracy": None},
    {"seconds": 2.5, "positions": 2**33, "loss": 0.25, "accuracy": 0.75},
]


def scalars(folder: Path) -> list[tuple[int, str, float]]:
    """Steps, names and values in the only event file of a folder; each record begins with its length."""
    (file,) = folder.iterdir()
    content, found = file.read_bytes(), []
    while content:
        (size,) = struct.unpack("<Q", content[:8])
        event = Event.FromString(content[12 : 12 + size])
        found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
        content = content[16 + size :]
    return found


def test_events_hold_the_numbers_of_the_reports_and_begin_anew_with_those_so_far(tmp_path: Path) -> None:
    with tensorboard_events(tmp_path, REPORTS[:1]) as add:
        add(REPORTS[1])
    first, *others = scalars(tmp_path)
    assert first == (300, "loss", 0.5)
    assert sorted(others) == [(2**33, "accuracy", 0.75), (2**33, "loss", 0.25)]
    with tensorboard_events(tmp_path, REPORTS[:1]):
        pass
    assert scalars(tmp_path) == [first]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # TensorBoard's, which cannot be flushed
@pytest.mark.parametrize("limit", [10, 200])
def test_a_full_disk_is_told_with_the_folder_of_the_events(
    tmp_path: Path, full_disk: Callable[[int], AbstractContextManager[None]], limit: int
) -> None:
    def record() -> None:
        with tensorboard_events(tmp_path, REPORTS[:1]) as add:
            while True:
                add(REPORTS[1])

    with full_disk(limit), pytest.raises(OSError, match="too large") as failure:
        record()
    assert failure.value.filename == str(tmp_path)
    del failure
    gc.collect()
