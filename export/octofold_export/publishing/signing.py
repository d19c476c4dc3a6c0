"""Signs versions: one that is being published, in memory, or one that is published."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from octofold_game.model import SIGNATURE_FILE, Card, CardError, read_card

from octofold_export.errors import ExportError
from octofold_export.publishing.versions import Content, changing, replace_files

if TYPE_CHECKING:  # an optional extra
    from octofold_game.signatures import SigningKey


def signature_of(key: SigningKey, name: str, files: Mapping[str, Content]) -> bytes:
    """The signature of files that are not written yet.

    Args:
        key: the key that signs.
        name: the name of their folder.
        files: the files by name.
    """
    return key.sign(name, {file: hashlib.sha256(content).hexdigest() for file, content in files.items()})


def check_signable(folder: Path, key: SigningKey | None) -> None:
    """Check, before files of a version change, that its signature is not left behind.

    Raises:
        ExportError: the version is signed, and there is no key to sign it again.
    """
    if key is None and (folder / SIGNATURE_FILE).exists():
        raise ExportError(f"{folder} is signed: use --sign to sign it again, or remove its {SIGNATURE_FILE}")


def sign_published(folder: Path, key: SigningKey) -> None:
    """Write the signature of a published version, or replace it.

    Raises:
        ExportError: the version is missing or damaged, or contains something that cannot be signed.
    """
    with changing(folder):
        try:
            replace_files(folder, {SIGNATURE_FILE: signature_with({}, folder, read_card(folder), key)})
        except CardError as error:
            raise ExportError(f"{folder}: {error}") from error
        except OSError as error:
            raise ExportError(f"{error.filename or folder}: {error.strerror}") from error


def signature_with(changed: Mapping[str, Content], folder: Path, card: Card, key: SigningKey) -> bytes:
    """The signature that a published version needs once it has these files.

    Args:
        changed: the files that will be new or replaced, by name.
        folder: the folder of the version.
        card: the card that it will have.
        key: the key that signs.

    Raises:
        ExportError: the version is damaged, or contains something that cannot be signed.
    """
    from octofold_game.signatures import GIT_FILES, SignatureError, files_in, is_below, sha256_of

    digests = {file: hashlib.sha256(content).hexdigest() for file, content in changed.items()}
    try:
        for path in files_in(folder):
            if path in changed or is_below(path, GIT_FILES):
                continue
            if (folder / path).is_symlink():
                raise ExportError(f"{folder / path} is a symbolic link, which cannot be signed")
            digests[path] = sha256_of(folder / path)
        for graph in card.precisions.values():
            for listed in (graph, *graph.tensors.values()):
                if digests.get(listed.file) != listed.sha256.lower():
                    raise ExportError(f"{folder / listed.file}: not the file that the card describes")
    except SignatureError as error:
        raise ExportError(f"{folder}: {error}") from error
    except OSError as error:
        raise ExportError(f"{error.filename or folder}: {error.strerror}") from error
    return key.sign(folder.name, digests)
