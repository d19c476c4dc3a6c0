"""Checks the signatures of versions, with --verify-models.

The signature covers the card, and the card lists the files to load, which are hashed in the memory from
which they are loaded.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from octofold_game.contract.signatures import PublicKeys, SignatureError
from octofold_proto.errors import ModelError

from octofold_server.system.reread import FileError, Reread


class Signatures:
    """The signatures of one repository.

    Args:
        key: PEM file of the public keys to trust; it is read again when it changes.

    Raises:
        FileError: the file cannot be used.
    """

    def __init__(self, key: Path) -> None:
        self._keys = Reread([key], partial(_keys, key))

    def check(self, folder: Path, card_text: str) -> None:
        """Check the card of the version in `folder` against its signature.

        Raises:
            ModelError: there is no signature of this card by a trusted key.
        """
        try:
            self._keys.look().check(folder, card_text.encode())
        except SignatureError as error:
            raise ModelError(str(error)) from error


def _keys(file: Path) -> PublicKeys:
    try:
        return PublicKeys(file)
    except SignatureError as error:
        raise FileError(f"--verify-models: {error}") from error
