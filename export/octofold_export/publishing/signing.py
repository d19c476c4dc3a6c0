"""Signs the cards of published versions."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from octofold_game.commands.extras import install_command
from octofold_game.contract.model import (
    CARD_FILE,
    SIGNATURE_FILE,
    TUNING_FILE,
    Card,
    CardError,
    ListedFile,
    card_text,
    encode_card,
    parse_card,
)
from octofold_game.system.files import open_regular, read_regular

from octofold_export.errors import ExportError
from octofold_export.publishing.versions import changing, replace_files

if TYPE_CHECKING:  # an optional extra
    from octofold_game.contract.signatures import SigningKey

MAX_FILE_BYTES = 1 << 33
PASSWORD_VARIABLE = "OCTOFOLD_SIGN_PASSWORD"
MAX_PASSWORD_BYTES = 1024


def signing_key(sign: Path | None, password_file: Path | None) -> SigningKey | None:
    """The key of --sign. It is read at once: a wrong one is found before any work.

    Raises:
        ExportError: it cannot be read, or the extra for signing is missing.
    """
    if sign is None:
        return None
    try:
        from octofold_game.contract.signatures import PasswordMissing, SignatureError, SigningKey
    except ModuleNotFoundError as error:
        remedy = f"run {install_command('signing')}"
        raise ExportError(f"--sign: {error.name} is not installed; {remedy}") from None
    password = os.environ.get(PASSWORD_VARIABLE, "").encode() or None
    if password_file is not None:
        try:
            password = read_regular(password_file, MAX_PASSWORD_BYTES).rstrip(b"\r\n") or None
        except OSError as error:
            raise ExportError(
                f"--sign-password-file: {password_file} cannot be read: {error.strerror}"
            ) from error
    try:
        return SigningKey(sign, password)
    except PasswordMissing as error:
        raise ExportError(f"--sign: {error}; use --sign-password-file or {PASSWORD_VARIABLE}") from error
    except SignatureError as error:
        raise ExportError(f"--sign: {error}") from error


def check_signable(folder: Path, key: SigningKey | None) -> None:
    """Check, before files of a version change, that its signature is not left behind.

    Raises:
        ExportError: the version is signed, and there is no key to sign it again.
    """
    if key is None and (folder / SIGNATURE_FILE).exists():
        raise ExportError(f"{folder} is signed: use --sign to sign it again, or remove its {SIGNATURE_FILE}")


def sign_published(folder: Path, key: SigningKey) -> Path:
    """Write the signature of a published version, or replace it; return its folder.

    The card then lists the results of `octofold-serve --tune`, if there are any.

    Raises:
        ExportError: the version is missing, or its files are not those that the card describes.
    """
    with changing(folder):
        try:
            text = card_text(folder)
            card, content = parse_card(text), text.encode()
            check_files(folder, card)
            tuned = _sha256(folder / TUNING_FILE) if (folder / TUNING_FILE).exists() else None
            if card.tuning_sha256 != tuned:
                content = encode_card(replace(card, tuning_sha256=tuned))
            replace_files(folder, {CARD_FILE: content, SIGNATURE_FILE: key.sign(content)})
        except CardError as error:
            raise ExportError(f"{folder}: {error}") from error
        except OSError as error:
            raise ExportError(f"{error.filename or folder}: {error.strerror}") from error
    return folder


def check_files(folder: Path, card: Card, new: Container[str] = ()) -> None:
    """Check that the files of a version are those that its card describes; `new` ones are not read.

    Raises:
        ExportError: one is missing or another.
    """
    graphs = [each for graph in card.precisions.values() for each in (graph, *graph.tensors.values())]
    for listed in (*graphs, *(card.player.files.values() if card.player is not None else ())):
        if listed.file not in new:
            check_file(folder, listed)


def check_file(folder: Path, listed: ListedFile) -> None:
    """Check one file, as `check_files`."""
    file = folder / listed.file
    try:
        digest = _sha256(file)
    except OSError as error:
        raise ExportError(f"{file}: {error.strerror}") from error
    if digest != listed.sha256.lower():
        raise ExportError(f"{file}: not the file that the card describes")


def _sha256(file: Path) -> str:
    with open_regular(file, MAX_FILE_BYTES) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
