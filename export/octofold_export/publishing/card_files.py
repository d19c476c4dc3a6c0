"""Reads the card of a published version, and replaces it with one that says more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from octofold_export.errors import ExportError
from octofold_export.publishing.card import CARD_FILE, README_FILE, Card, describe, encode
from octofold_export.publishing.versions import replace_file


def write_card(folder: Path, card: Card) -> None:
    """Write card.json and README.md of a version; raises `ExportError` if that is not possible."""
    try:
        content = encode(card), describe(card)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ExportError(f"{folder / CARD_FILE}: not the card of a model ({error!r})") from error
    try:
        for file, text in zip((CARD_FILE, README_FILE), content, strict=True):
            replace_file(folder / file, text)
    except OSError as error:
        raise ExportError(f"{folder}: {error.strerror}") from error


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object; raises `ExportError` if the file holds none."""
    try:
        content = json.loads(file.read_text())
    except OSError as error:
        raise ExportError(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise ExportError(f"{file}: not JSON") from error
    if not isinstance(content, dict):
        raise ExportError(f"{file}: not a JSON object")
    return content
