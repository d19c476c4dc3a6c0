"""Reads and replaces the card of a published version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from octofold_game.model import CARD_FILE, README_FILE, Card, CardError, encode_card, read_card

from octofold_export.errors import ExportError
from octofold_export.publishing.readme import describe
from octofold_export.publishing.signing import check_signable, sign_published
from octofold_export.publishing.versions import replace_file

if TYPE_CHECKING:  # an optional extra
    from octofold_game.signatures import SigningKey


def read_published(folder: Path) -> Card:
    """Read the card of the version in `folder`.

    Raises:
        ExportError: the card is missing or cannot be read.
    """
    try:
        return read_card(folder)
    except CardError as error:
        raise ExportError(f"{folder}: {error}") from error


def write_card(folder: Path, card: Card, key: SigningKey | None = None) -> None:
    """Write card.json and README.md of a version, and its signature if there is a key.

    Raises:
        ExportError: the files cannot be written, or the version is signed and there is no key.
    """
    check_signable(folder, key)
    content = encode_card(card), describe(card)
    try:
        for file, text in zip((CARD_FILE, README_FILE), content, strict=True):
            replace_file(folder / file, text)
    except OSError as error:
        raise ExportError(f"{folder}: {error.strerror}") from error
    if key is not None:
        sign_published(folder, key)
