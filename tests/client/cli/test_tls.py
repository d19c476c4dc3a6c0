"""Messages if only one side uses TLS, or if a certificate cannot be verified."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from octofold_client import Client
from octofold_client.errors import Unavailable
from octofold_client.evaluation.server_connections import diagnose
from octofold_client.rpc.credentials import Credentials
from support.certificates import Authority
from support.commands import failure, octofold
from support.servers import served


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "authority")


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Path:
    return authority.certificate


@pytest.fixture(scope="module")
def tls_port(authority: Authority, repository: Path) -> Iterator[int]:
    """The port of a real server with TLS."""
    pair = authority.issue("server")
    flags = ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key))
    with served(repository, *flags) as server:
        yield int(server.port)


def test_an_unverifiable_certificate_gives_one_line_with_the_reason(tls_port: int) -> None:
    assert failure("models", "--target", f"127.0.0.1:{tls_port}", "--tls") == (
        f"the certificate of 127.0.0.1:{tls_port} cannot be verified: "
        "unable to get local issuer certificate (name the CA certificates to trust with --tls-ca)"
    )


def test_a_wrong_certificate_is_reported_although_another_address_of_the_host_refuses(
    tls_port: int, certificate: Path
) -> None:
    refused = Unavailable("no octofold server answers: Connection refused")  # gRPC's message for `localhost`
    here = Credentials.from_files(authorities=certificate)
    assert str(diagnose(refused, f"localhost:{tls_port}", here)) == (
        f"the certificate of localhost:{tls_port} is not for this host name"
    )
    unknown = diagnose(refused, f"127.0.0.1:{tls_port}", Credentials(tls=True))
    assert "cannot be verified: unable to get local issuer" in str(unknown)
    assert diagnose(refused, f"127.0.0.1:{tls_port}", here) is refused


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_plaintext_client_of_a_tls_server_is_told_to_use_tls(tls_port: int, host: str) -> None:
    assert failure("models", "--target", f"{host}:{tls_port}") == (
        f"{host}:{tls_port} uses TLS: use --tls, or --tls-ca FILE if the system does not trust its CA"
    )


def test_a_tls_client_of_a_plaintext_server_is_told_that_it_has_no_tls(target: str) -> None:
    assert failure("models", "--target", target, "--tls") == (
        f"{target} does not use TLS (leave out --tls and its files)"
    )


def test_each_address_of_a_list_is_checked_against_its_own_certificate(
    tls_port: int, certificate: Path
) -> None:
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
