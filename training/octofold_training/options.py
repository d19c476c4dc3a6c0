"""Options of the trainers: dataclass fields that carry their own line of help and their bounds."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def option(default: Any, help: str, minimum: float = 0) -> Any:
    """A dataclass field with a line of help and the smallest value that makes sense."""
    return field(default=default, metadata={"help": help, "minimum": minimum})
