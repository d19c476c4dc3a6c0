"""Keys and signatures for tests, and the official tool that makes and checks the same signatures."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from octofold_game.model import SIGNATURE_FILE
from octofold_game.signatures import SigningKey, files_in, sha256_of


@dataclass(frozen=True)
class KeyPair:
    """PEM files."""

    private: Path
    public: Path

    def sign(self, folder: Path) -> None:
        digests = {path: sha256_of(folder / path) for path in files_in(folder)}
        (folder / SIGNATURE_FILE).write_bytes(SigningKey(self.private).sign(folder.name, digests))


def new_keys(
    folder: Path, name: str, curve: ec.EllipticCurve | None = None, password: bytes = b""
) -> KeyPair:
    key = ec.generate_private_key(curve or ec.SECP256R1())
    pair = KeyPair(folder / f"{name}.pem", folder / f"{name}.pub")
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    pair.private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    pair.public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return pair


def model_signing(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the official tool."""
    command: Sequence[str] = [sys.executable, "-m", "model_signing", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def sign_officially(folder: Path, keys: KeyPair) -> None:
    place = folder / SIGNATURE_FILE
    done = model_signing("sign", "key", folder, "--private_key", keys.private, "--signature", place)
    assert done.returncode == 0, done.stderr


def holds_officially(folder: Path, keys: KeyPair) -> bool:
    place = folder / SIGNATURE_FILE
    done = model_signing("verify", "key", folder, "--public_key", keys.public, "--signature", place)
    assert "Verification" in done.stdout + done.stderr, done.stderr
    return done.returncode == 0
