"""What the tests of the papers share."""

from support.crowded_boards import boards
from support.training_fixtures import (
    _no_curves,
    _one_thread,
    architecture,
    curves,
    full_disk,
    start,
    start_folder,
    teacher,
)

__all__ = [
    "_no_curves",
    "_one_thread",
    "architecture",
    "boards",
    "curves",
    "full_disk",
    "start",
    "start_folder",
    "teacher",
]
