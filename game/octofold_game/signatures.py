"""Signs published versions and reads signatures, in the format of OpenSSF Model Signing (OMS).

A signature is a Sigstore bundle in JSON. Its DSSE envelope signs an in-toto statement, which lists the
SHA-256 of every file of the version. The tool `model_signing` reads what this module writes, and the other
way round. Only signatures by elliptic-curve keys are supported. This module needs the extra `signing`.

Formats: https://github.com/ossf/model-signing-spec, https://github.com/secure-systems-lab/dsse.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from octofold_game.files import open_regular, read_regular
from octofold_game.model import SIGNATURE_FILE

MAX_SIGNATURE_BYTES = 1 << 20
MAX_KEY_BYTES = 1 << 16
MAX_FILE_BYTES = 1 << 33
MAX_FILES = 1000
"""In a version."""

GIT_FILES = (".git", ".gitattributes", ".github", ".gitignore")
"""What `model_signing` never signs."""

_BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://model_signing/signature/v1.0"

_HASHES: dict[str, type[hashes.HashAlgorithm]] = {
    "secp256r1": hashes.SHA256,
    "secp384r1": hashes.SHA384,
    "secp521r1": hashes.SHA512,
}
"""By the name of the curve."""

_PUBLIC_KEY = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)
_PIECE_BYTES = 1 << 20


class SignatureError(ValueError):
    """A signature, a signed file or a key that cannot be accepted; the message is one line that names it."""


class PasswordMissing(SignatureError):
    """A private key is encrypted, and no password was given."""


class _Named(msgspec.Struct, rename="camel"):
    """The parts of a bundle. Unknown fields are passed over."""


class _PublicKey(_Named):
    hint: str | None = None


class _Material(_Named):
    public_key: _PublicKey | None = None


class _Signature(_Named):
    sig: bytes


class _Envelope(_Named):
    payload: bytes
    payload_type: str
    signatures: list[_Signature]


class _Bundle(_Named):
    media_type: str
    verification_material: _Material
    dsse_envelope: _Envelope


class _Subject(msgspec.Struct):
    digest: dict[str, str]


class _Serialization(msgspec.Struct):
    method: str
    hash_type: str
    ignore_paths: list[str] = []


class _Resource(msgspec.Struct):
    name: str
    algorithm: str
    digest: str


class _Predicate(msgspec.Struct):
    serialization: _Serialization
    resources: list[_Resource]


class _Statement(msgspec.Struct):
    kind: str = msgspec.field(name="_type")
    subject: list[_Subject]
    predicate_type: str = msgspec.field(name="predicateType")
    predicate: msgspec.Raw


@dataclass(frozen=True)
class SignedFiles:
    """What a signature says about a version."""

    digests: Mapping[str, str]
    "the SHA-256 in hexadecimal of each file, by its path in the folder"
    ignored: frozenset[str]
    "the paths that the signer left out, beside the signature itself"

    def ignores(self, path: str) -> bool:
        """Whether the signer left out this path or a folder that contains it."""
        return is_below(path, self.ignored)


class SigningKey:
    """A private key.

    Args:
        file: PEM file of an elliptic-curve key.
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
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name not in _HASHES:
            raise _wrong_kind(file)
        self._key = key

    def sign(self, name: str, digests: Mapping[str, str]) -> bytes:
        """The content of a signature file.

        Args:
            name: the name of the folder, for information.
            digests: the SHA-256 of each file, by its path in the folder.
        """
        listed = sorted(digests.items())
        statement = {
            "_type": _STATEMENT,
            "subject": [{"name": name, "digest": {"sha256": _root([digest for _, digest in listed])}}],
            "predicateType": _PREDICATE,
            "predicate": {
                "serialization": {
                    "method": "files",
                    "hash_type": "sha256",
                    "allow_symlinks": False,
                    "ignore_paths": [*GIT_FILES, SIGNATURE_FILE],
                },
                "resources": [
                    {"name": path, "algorithm": "sha256", "digest": digest} for path, digest in listed
                ],
            },
        }
        payload = json.dumps(statement, indent=2).encode()
        signature = self._key.sign(_signed_bytes(payload), _algorithm(self._key.public_key()))
        bundle: dict[str, Any] = {
            "mediaType": _BUNDLE,
            "verificationMaterial": {
                "publicKey": {"hint": _hint(self._key.public_key())},
                "tlogEntries": [],
            },
            "dsseEnvelope": {
                "payload": b64encode(payload).decode(),
                "payloadType": _PAYLOAD,
                "signatures": [{"sig": b64encode(signature).decode(), "keyid": ""}],
            },
        }
        return json.dumps(bundle).encode() + b"\n"


class PublicKeys:
    """The keys whose signatures are accepted.

    Args:
        file: PEM file of one or more elliptic-curve keys.

    Raises:
        SignatureError: the file cannot be read, or contains no key or one of another kind.
    """

    def __init__(self, file: Path) -> None:
        found = _PUBLIC_KEY.findall(_read_key(file))
        if not found:
            raise SignatureError(f"{file} contains no public key in PEM")
        self._file = file
        self._keys: dict[str, ec.EllipticCurvePublicKey] = {}
        for text in found:
            try:
                key = serialization.load_pem_public_key(text)
            except (ValueError, UnsupportedAlgorithm):
                raise SignatureError(f"{file} contains a public key that cannot be read") from None
            if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in _HASHES:
                raise _wrong_kind(file)
            self._keys[_hint(key)] = key

    @property
    def hints(self) -> frozenset[str]:
        """The SHA-256 of each key, which signatures name."""
        return frozenset(self._keys)

    def read(self, folder: Path) -> SignedFiles:
        """Read the signature of the version in `folder`, after checking that one of the keys has made it.

        The files of the version are not read.

        Raises:
            SignatureError: it is missing, damaged, by another key, or in a form that is not supported.
        """
        try:
            content = read_regular(folder / SIGNATURE_FILE, MAX_SIGNATURE_BYTES)
        except FileNotFoundError:
            raise SignatureError(f"{SIGNATURE_FILE} is missing: the version is not signed") from None
        except OSError as error:
            raise SignatureError(f"{SIGNATURE_FILE} cannot be read: {error.strerror}") from error
        try:
            bundle = msgspec.json.decode(content, type=_Bundle)
            self._check(bundle)
            return _files_of(msgspec.json.decode(bundle.dsse_envelope.payload, type=_Statement))
        except SignatureError as error:
            raise SignatureError(f"{SIGNATURE_FILE} {error}") from None
        except (ValueError, RecursionError) as error:
            raise SignatureError(f"{SIGNATURE_FILE} is not a signature of a model: {error}") from None

    def _check(self, bundle: _Bundle) -> None:
        envelope, named = bundle.dsse_envelope, bundle.verification_material.public_key
        if bundle.media_type != _BUNDLE or envelope.payload_type != _PAYLOAD or not envelope.signatures:
            raise SignatureError(f"is not a signature of a model: expected {_BUNDLE} with {_PAYLOAD}")
        if named is None:
            raise SignatureError("was not made with a key: sign the version with one")
        if named.hint and named.hint not in self._keys:
            raise SignatureError(f"was made with another key than {self._file}")
        signed = _signed_bytes(envelope.payload)
        for key in [self._keys[named.hint]] if named.hint else self._keys.values():
            try:
                key.verify(envelope.signatures[0].sig, signed, _algorithm(key))
            except InvalidSignature:
                continue
            return
        raise SignatureError("does not hold: it was changed, or made with another key")


def is_below(path: str, others: Collection[str]) -> bool:
    """Whether a path is one of the others, or below one of them."""
    itself = PurePosixPath(path)
    return any(str(place) in others for place in (itself, *itself.parents))


def files_in(folder: Path) -> list[str]:
    """The paths of all files in a folder and the folders below it, sorted, without `SIGNATURE_FILE`.

    Raises:
        SignatureError: there are more than `MAX_FILES`.
        OSError: a folder cannot be read.
    """
    found: list[str] = []
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                else:
                    found.append(Path(entry.path).relative_to(folder).as_posix())
                if len(found) + len(waiting) > MAX_FILES:
                    raise SignatureError(f"{folder} contains more than {MAX_FILES} files")
    return sorted(path for path in found if path != SIGNATURE_FILE)


def sha256_of(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal; it is read in pieces.

    Raises:
        OSError: as `octofold_game.files.open_regular`.
    """
    digest = hashlib.sha256()
    with open_regular(file, MAX_FILE_BYTES) as content:
        left = os.fstat(content.fileno()).st_size + 1  # one more: it may have grown
        while left > 0 and (piece := content.read(min(left, _PIECE_BYTES))):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()


def _files_of(statement: _Statement) -> SignedFiles:
    """The content of a statement whose signature holds."""
    if statement.kind != _STATEMENT or statement.predicate_type != _PREDICATE:
        raise SignatureError(f"signs {statement.predicate_type!r:.100}, expected {_PREDICATE!r}")
    predicate = msgspec.json.decode(statement.predicate, type=_Predicate)
    form = predicate.serialization
    if form.method != "files" or form.hash_type != "sha256":
        raise SignatureError(
            f"lists {form.method!r:.50} with {form.hash_type!r:.50}, expected 'files' with 'sha256'"
        )
    digests = {resource.name: resource.digest.lower() for resource in predicate.resources}
    root = _root([resource.digest for resource in predicate.resources])
    consistent = [subject.digest.get("sha256") for subject in statement.subject] == [root]
    if not consistent or len(digests) != len(predicate.resources):
        raise SignatureError("contradicts itself")
    return SignedFiles(digests, frozenset({*form.ignore_paths, SIGNATURE_FILE}))


def _root(digests: Sequence[str]) -> str:
    """The digest of the whole version: of the digests of its files."""
    return hashlib.sha256(b"".join(map(bytes.fromhex, digests))).hexdigest()


def _signed_bytes(payload: bytes) -> bytes:
    """What is signed for a payload: DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload)


def _hint(key: ec.EllipticCurvePublicKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.PEM, form)).hexdigest()


def _algorithm(key: ec.EllipticCurvePublicKey) -> ec.ECDSA:
    return ec.ECDSA(_HASHES[key.curve.name]())


def _read_key(file: Path) -> bytes:
    try:
        return read_regular(file, MAX_KEY_BYTES)
    except OSError as error:
        raise SignatureError(f"{file} cannot be read: {error.strerror}") from error


def _wrong_kind(file: Path) -> SignatureError:
    return SignatureError(
        f"{file} is of another kind: expected an elliptic-curve key on P-256, P-384 or P-521"
    )
