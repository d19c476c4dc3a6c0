"""Keys and signatures for tests, and OpenSSL, which makes and checks the same signatures."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from octofold_game.contract.model import CARD_FILE, SIGNATURE_FILE
from octofold_game.contract.signatures import PublicKeys, SigningKey


@dataclass(frozen=True)
class KeyPair:
    """PEM files."""

    private: Path
    public: Path

    def sign(self, folder: Path) -> None:
        signature = SigningKey(self.private).sign((folder / CARD_FILE).read_bytes())
        (folder / SIGNATURE_FILE).write_bytes(signature)

    def check(self, folder: Path) -> None:
        PublicKeys(self.public).check(folder, (folder / CARD_FILE).read_bytes())


def new_keys(
    folder: Path, name: str, curve: ec.EllipticCurve | None = None, password: bytes = b""
) -> KeyPair:
    """New keys on an elliptic curve, by default P-256."""
    return written(folder, name, ec.generate_private_key(curve or ec.SECP256R1()), password)


def written(
    folder: Path,
    name: str,
    key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey,
    password: bytes = b"",
) -> KeyPair:
    pair = KeyPair(folder / f"{name}.pem", folder / f"{name}.pub")
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    pair.private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    pair.public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return pair


def openssl(*arguments: str | Path) -> None:
    """Run OpenSSL's command.

    Raises:
        subprocess.CalledProcessError: it failed; a signature does not hold.
    """
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
