"""Cards of published models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_card(models: Path, version: int = 1, name: str = "small") -> dict[str, Any]:
    """Return the card of a version in a model repository."""
    card: dict[str, Any] = json.loads((models / name / str(version) / "card.json").read_text())
    return card
