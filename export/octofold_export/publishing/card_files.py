"""Reads and replaces the card of a published version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from octofold_game.contract.model import (
    CARD_FILE,
    README_FILE,
    SIGNATURE_FILE,
    Card,
    CardError,
    encode_card,
    read_card,
)

from octofold_export.errors import ExportError
from octofold_export.publishing.readme import describe
from octofold_export.publishing.signing import check_files, check_signable
from octofold_export.publishing.versions import Content, changing, replace_files

if TYPE_CHECKING:  # an optional extra
    from octofold_game.contract.signatures import SigningKey

_NO_GRAPHS: Mapping[str, Content] = MappingProxyType({})


def read_published(folder: Path) -> Card:
    """Read the card of the version in `folder`.

    Raises:
        ExportError: the card is missing or cannot be read.
    """
    try:
        return read_card(folder)
    except CardError as error:
        raise ExportError(f"{folder}: {error}") from error


def change_card(
    folder: Path,
    change: Callable[[Card], Card],
    key: SigningKey | None = None,
    graphs: Mapping[str, Content] = _NO_GRAPHS,
) -> None:
    """Write new graphs, card.json and README.md of a version, and its signature if there is a key.

    `change` makes the new card from the current one. Nobody else changes the version meanwhile. An error
    leaves the version unchanged.

    Raises:
        ExportError: the card is missing or cannot be read, the files cannot be written or signed, or the
            version is signed and there is no key. Also what `change` raises.
    """
    with changing(folder):
        card = change(read_published(folder))
        check_signable(folder, key)
        content = encode_card(card)
        files = {**graphs, CARD_FILE: content, README_FILE: describe(card)}
        if key is not None:
            check_files(folder, card, graphs)
            files[SIGNATURE_FILE] = key.sign(content)
        try:
            replace_files(folder, files)
        except OSError as error:
            raise ExportError(f"{folder}: {error.strerror}") from error
