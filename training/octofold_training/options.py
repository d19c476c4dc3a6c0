"""Options of the trainers: dataclass fields that carry their own line of help and their bounds."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any


def option(default: Any, help: str, minimum: float = 0, maximum: float = math.inf) -> Any:
    """A dataclass field with a line of help and the smallest and the largest value that make sense."""
    return field(default=default, metadata={"help": help, "minimum": minimum, "maximum": maximum})
