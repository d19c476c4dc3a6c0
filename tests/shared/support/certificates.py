"""A certificate authority and the certificates that it signs."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    """PEM files of a certificate and its private key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority for 127.0.0.1 that writes all files to one folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = folder / f"{name}.pem"
        signed = self._sign(self._name, self._key, days=1, authority=True)
        self.certificate.write_bytes(_pem(signed))

    def issue(self, name: str, *, days: int = 1) -> Pair:
        """Return a certificate that is valid for `days` days. With a negative number, it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.certificate.write_bytes(_pem(self._sign(_name(name), key, days=days, authority=False)))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return pair

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int, authority: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=30))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
