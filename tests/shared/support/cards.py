"""Cards of published models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.json_files import read_json


def read_card(models: Path, version: int = 1, name: str = "small") -> dict[str, Any]:
    """Return the card of a version in a model repository."""
    return read_json(models / name / str(version) / "card.json")
