"""Reads and changes the card of a published version."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
from octofold_game.contract.model import (
    CARD_FILE,
    README_FILE,
    Card,
    CardError,
    ListedFile,
    encode_card,
    read_card,
)
from octofold_game.system.files import open_regular

from octofold_export.description.description import Description
from octofold_export.errors import ExportError
from octofold_export.publishing.readme import render_readme
from octofold_export.publishing.repository import Content, locked_version, replace_files

_MAX_FILE_BYTES = 1 << 33
_NO_GRAPHS: Mapping[str, Content] = MappingProxyType({})


def read_published(folder: Path) -> Card:
    """Return the card of the version in `folder`.

    Raises:
        ExportError: the card is missing or cannot be read.
    """
    try:
        return read_card(folder)
    except CardError as error:
        raise ExportError(f"{folder}: {error}") from error


def published_description(folder: Path) -> Description:
    """Return the description of the network that was published in `folder`.

    Raises:
        ExportError: the card cannot be read, or has no description.
    """
    card = read_published(folder)
    if card.description is None:
        raise ExportError(f"{folder}: the card has no description of a network")
    return msgspec.convert(card.description, Description)


def change_card(
    folder: Path, change: Callable[[Card], Card], graphs: Mapping[str, Content] = _NO_GRAPHS
) -> None:
    """Change the card of a published version; write card.json, README.md and `graphs`.

    The version is locked while `change` makes the new card from the current one. An error leaves the version
    unchanged. Exceptions of `change` reach the caller.

    Raises:
        ExportError: the card is missing or cannot be read, or the files cannot be written.
    """
    with locked_version(folder):
        card = change(read_published(folder))
        files = {**graphs, CARD_FILE: encode_card(card), README_FILE: render_readme(card)}
        try:
            replace_files(folder, files)
        except OSError as error:
            raise ExportError(f"{folder}: {error.strerror}") from error


def check_file(folder: Path, listed: ListedFile) -> None:
    """Raise `ExportError` if a file of a version cannot be read or has another SHA-256 than in the card."""
    file = folder / listed.file
    if file_digest(file) != listed.sha256.lower():
        raise ExportError(f"{file}: the SHA-256 differs from the one in the card")


def file_digest(file: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        ExportError: the file cannot be read.
    """
    try:
        with open_regular(file, _MAX_FILE_BYTES) as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise ExportError(f"{file}: {error.strerror}") from error
