"""Checks the signatures of versions, with --verify-models.

The signature lists the digest of every file. The card is checked first, and lists the digests of the files
to load, which are hashed in memory. What is checked is thus what is loaded, and each file is hashed once.
Files that are not loaded are hashed on their own.
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

from octofold_game.model import CARD_FILE, GraphFile
from octofold_game.signatures import PublicKeys, SignatureError, SignedFiles, files_in, sha256_of
from octofold_proto.errors import ModelError

from octofold_server.system.reread import FileError, Reread

_Marks = tuple[frozenset[str], frozenset[tuple[str, int, int, int, int]]]


class Signatures:
    """The signatures of one repository.

    Args:
        key: PEM file of the public keys to trust; it is read again when it changes.

    Raises:
        FileError: the file cannot be used.
    """

    def __init__(self, key: Path) -> None:
        self._keys = Reread([key], partial(_keys, key))
        self._checked: dict[Path, _Marks] = {}  # the files of each version when it was last found as signed

    def check(self, folder: Path, card_text: str, loading: GraphFile | None = None) -> SignedFiles:
        """Check the files of a version against its signature.

        Args:
            folder: the folder of the version.
            card_text: its card.
            loading: the files that the caller reads from now on, and whose digests it compares with the card.
                None to hash all files, unless they are known to be the same as at the last check.

        Raises:
            ModelError: there is no signature by a trusted key, or a file is not as it was signed.
        """
        keys = self._keys.look()
        try:
            marks = keys.hints, _marks_of(folder)
            signed = keys.read(folder)
            _compare(signed, CARD_FILE, hashlib.sha256(card_text.encode()).hexdigest())
            if loading is None and self._checked.get(folder) == marks:
                return signed
            read = {CARD_FILE}
            for listed in (loading, *loading.tensors.values()) if loading is not None else ():
                _compare(signed, listed.file, listed.sha256.lower())
                read.add(listed.file)
            _check_files(signed, folder, read)
        except SignatureError as error:
            raise ModelError(str(error)) from error
        except OSError as error:
            raise ModelError(f"{folder} cannot be read: {error.strerror}") from error
        self._checked[folder] = marks
        return signed


def _check_files(signed: SignedFiles, folder: Path, read: set[str]) -> None:
    """Compare the files with the list, and hash all but those that are `read` by others."""
    present = [path for path in files_in(folder) if not signed.ignores(path)]
    for path in present:
        if path not in signed.digests:
            raise SignatureError(f"{path!r} is not in the signature")
    for path in sorted(signed.digests.keys() - set(present)):
        raise SignatureError(f"{path!r} is in the signature, but missing")
    for path in present:
        if path not in read:
            try:
                digest = sha256_of(folder / path)
            except OSError as error:
                raise SignatureError(f"{path!r} cannot be read: {error.strerror}") from error
            _compare(signed, path, digest)


def _compare(signed: SignedFiles, path: str, digest: str) -> None:
    wanted = signed.digests.get(path)
    if wanted is None:
        raise SignatureError(f"{path!r} is not in the signature")
    if digest != wanted:
        raise SignatureError(
            f"{path!r} is not as it was signed: its SHA-256 is {digest}, but the signature has {wanted}"
        )


def _marks_of(folder: Path) -> frozenset[tuple[str, int, int, int, int]]:
    """What changes when a file of the folder does."""
    marks = set()
    for path in files_in(folder):
        status = (folder / path).stat()
        marks.add((path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return frozenset(marks)


def _keys(file: Path) -> PublicKeys:
    try:
        return PublicKeys(file)
    except SignatureError as error:
        raise FileError(f"--verify-models: {error}") from error
