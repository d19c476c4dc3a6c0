"""What is said when one side speaks TLS and the other does not, or a certificate cannot be verified."""

import datetime
import ipaddress
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from octofold_client import Client
from octofold_client.errors import Unavailable
from octofold_client.evaluation.servers import diagnose
from octofold_client.rpc.credentials import Credentials
from support.commands import octofold

SERVE = Path(sys.executable).with_name("octofold-serve")


def line_of(*arguments: str) -> str:
    """The one line that the command fails with: nothing of the SSL library beside it."""
    done = octofold(*arguments)
    assert (done.returncode, done.stdout) == (1, ""), done
    (line,) = done.stderr.splitlines()
    return line


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1 that vouches for itself, in a folder with its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "octofold test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return folder / "certificate.pem"


@pytest.fixture(scope="module")
def tls_port(certificate: Path, repository: Path) -> Iterator[int]:
    """The port of a real server that speaks TLS."""
    file = certificate.with_name("port")
    command: list[str | Path] = [
        SERVE,
        "--models",
        repository,
        "--port",
        "0",
        "--port-file",
        file,
        "--grace",
        "0",
    ]
    tls: list[str | Path] = ["--tls-certificate", certificate, "--tls-key", certificate.with_name("key.pem")]
    with subprocess.Popen([*command, *tls], stderr=subprocess.DEVNULL) as server:
        try:
            while not file.exists():
                assert server.poll() is None
                time.sleep(0.02)
            yield int(file.read_text())
        finally:
            server.terminate()


def test_a_certificate_that_cannot_be_verified_is_one_line_with_the_reason(tls_port: int) -> None:
    assert line_of("models", "--target", f"127.0.0.1:{tls_port}", "--tls") == (
        f"octofold: the certificate of 127.0.0.1:{tls_port} cannot be verified: self-signed certificate "
        "(name the CA certificates to trust with --tls-ca)"
    )


def test_a_certificate_of_another_host_is_told_from_an_unknown_one(tls_port: int, certificate: Path) -> None:
    assert line_of("models", "--target", f"localhost:{tls_port}", "--tls-ca", str(certificate)) == (
        f"octofold: the certificate of localhost:{tls_port} is not for this host name"
    )


def test_a_wrong_certificate_is_found_behind_the_refusal_of_a_hosts_other_address(
    tls_port: int, certificate: Path
) -> None:
    refused = Unavailable("no octofold server answers: Connection refused")  # what gRPC tells of `localhost`
    here = Credentials.from_files(authorities=certificate)
    assert str(diagnose(refused, f"localhost:{tls_port}", here)) == (
        f"the certificate of localhost:{tls_port} is not for this host name"
    )
    unknown = diagnose(refused, f"127.0.0.1:{tls_port}", Credentials(tls=True))
    assert "cannot be verified: self" in str(unknown)
    assert diagnose(refused, f"127.0.0.1:{tls_port}", here) is refused


@pytest.mark.parametrize("command", ["models", "ready", "evaluate"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_plaintext_client_of_a_tls_server_hears_of_tls(tls_port: int, command: str, host: str) -> None:
    assert line_of(command, "--target", f"{host}:{tls_port}") == (
        f"octofold: {host}:{tls_port} uses TLS: use --tls, or --tls-ca FILE if the system does not trust "
        "its CA"
    )


def test_a_tls_client_of_a_plaintext_server_hears_that_it_has_none(target: str) -> None:
    assert line_of("models", "--target", target, "--tls") == (
        f"octofold: {target} does not use TLS (leave out --tls and its files)"
    )


def test_with_the_certificate_it_works(tls_port: int, certificate: Path) -> None:
    done = octofold("models", "--target", f"127.0.0.1:{tls_port}", "--tls-ca", certificate)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("small")


def test_each_address_of_a_list_is_held_to_its_own_certificate(tls_port: int, certificate: Path) -> None:
    right, wrong = f"127.0.0.1:{tls_port}", f"localhost:{tls_port}"
    done = octofold("models", "--target", f"{wrong},{right}", "--tls-ca", certificate)
    assert done.returncode == 0, done
    assert done.stdout.startswith("small")
    (line,) = done.stderr.splitlines()
    assert line == f"continuing without {wrong}: the certificate of {wrong} is not for this host name"
    credentials = Credentials.from_files(authorities=certificate)
    with Client(f"{wrong},{right}", credentials=credentials) as client:
        assert {client.next_move([0] * 15 + [1]).model for _ in range(10)} == {"small"}
    with Client(f"dns:///{right}", credentials=credentials) as client:
        assert client.next_move([0] * 15 + [1]).model == "small"
