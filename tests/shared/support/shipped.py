"""The shipped models of this repository."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
MODELS = ROOT / "models"
MADE_HERE = re.findall(r"^models/(\w+)/$", (ROOT / ".gitignore").read_text(), re.MULTILINE)
CARDS = sorted(card for card in MODELS.glob("*/*/card.json") if card.parts[-3] not in MADE_HERE)
"""The cards of the shipped models, without models that users make here."""


def newest(name: str) -> Path:
    """Return the folder of the newest version of a model, such as `models/swift/4`."""
    return max((MODELS / name).glob("[0-9]*"), key=lambda version: int(version.name))
