"""Signs the cards of published versions, and checks their signatures.

A card lists the SHA-256 of every file that is loaded, so the signature of its bytes covers these files, too.
`SIGNATURE_FILE` holds the signature alone, as OpenSSL writes it. This module needs the extra `signing`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from octofold_game.contract.model import OLD_SIGNATURE_FILE, SIGNATURE_FILE
from octofold_game.errors import OctofoldError
from octofold_game.system.files import read_regular

MAX_SIGNATURE_BYTES = 1 << 10
MAX_KEY_BYTES = 1 << 16

_PublicKey: TypeAlias = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

_CURVES = ("secp256r1", "secp384r1", "secp521r1")
_ECDSA = ec.ECDSA(hashes.SHA256())
_PUBLIC_KEY = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)


class SignatureError(OctofoldError, ValueError):
    """A signature or a key that cannot be accepted; the message is one line that names it."""


class PasswordMissing(SignatureError):
    """A private key is encrypted, and no password was given."""


class SigningKey:
    """A private key.

    Args:
        file: PEM file of an elliptic-curve or Ed25519 key.
        password: the password of the file; None if it is not encrypted.

    Raises:
        PasswordMissing: the file is encrypted, and there is no password.
        SignatureError: the file cannot be read, the password is wrong, or the key is of another kind.
    """

    def __init__(self, file: Path, password: bytes | None = None) -> None:
        content = _read_key(file)
        try:
            key = serialization.load_pem_private_key(content, password)
        except TypeError:
            if password is None:
                raise PasswordMissing(f"{file} is encrypted: its password is missing") from None
            raise SignatureError(f"{file} is not encrypted, but there is a password") from None
        except (ValueError, UnsupportedAlgorithm):
            wrong = "" if password is None else ", or the password is wrong"
            raise SignatureError(f"{file} is not a private key in PEM{wrong}") from None
        _accepted(key.public_key(), file)
        assert isinstance(key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey)
        self._key = key

    def sign(self, card: bytes) -> bytes:
        """The content of the signature file of a card, by ECDSA with SHA-256 or by Ed25519."""
        if isinstance(self._key, ec.EllipticCurvePrivateKey):
            return self._key.sign(card, _ECDSA)
        return self._key.sign(card)


class PublicKeys:
    """The keys whose signatures are accepted.

    Args:
        file: PEM file of one or more elliptic-curve or Ed25519 keys.

    Raises:
        SignatureError: the file cannot be read, or contains no key or one of another kind.
    """

    def __init__(self, file: Path) -> None:
        found = _PUBLIC_KEY.findall(_read_key(file))
        if not found:
            raise SignatureError(f"{file} contains no public key in PEM")
        self._file = file
        self._keys: list[_PublicKey] = []
        for text in found:
            try:
                key = serialization.load_pem_public_key(text)
            except (ValueError, UnsupportedAlgorithm):
                raise SignatureError(f"{file} contains a public key that cannot be read") from None
            self._keys.append(_accepted(key, file))

    def check(self, folder: Path, card: bytes) -> None:
        """Check that one of the keys has signed a card.

        Args:
            folder: the folder of the version, which holds the signature.
            card: the bytes of its card.

        Raises:
            SignatureError: the signature is missing, cannot be read, or does not hold.
        """
        try:
            signature = read_regular(folder / SIGNATURE_FILE, MAX_SIGNATURE_BYTES)
        except FileNotFoundError:
            if (folder / OLD_SIGNATURE_FILE).exists():
                raise SignatureError(
                    f"{OLD_SIGNATURE_FILE} has an old format: sign the version again"
                ) from None
            raise SignatureError(f"{SIGNATURE_FILE} is missing: the version is not signed") from None
        except OSError as error:
            raise SignatureError(f"{SIGNATURE_FILE} cannot be read: {error.strerror}") from error
        if not any(_holds(key, signature, card) for key in self._keys):
            raise SignatureError(
                f"{SIGNATURE_FILE} does not hold: no key in {self._file} has signed this card"
            )


def _holds(key: _PublicKey, signature: bytes, card: bytes) -> bool:
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, card, _ECDSA)
        else:
            key.verify(signature, card)
    except InvalidSignature:
        return False
    return True


def _read_key(file: Path) -> bytes:
    try:
        return read_regular(file, MAX_KEY_BYTES)
    except OSError as error:
        raise SignatureError(f"{file} cannot be read: {error.strerror}") from error


def _accepted(key: object, file: Path) -> _PublicKey:
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return key
    raise SignatureError(
        f"{file} is of another kind: expected an Ed25519 key, or one on the curve P-256, P-384 or P-521"
    )
