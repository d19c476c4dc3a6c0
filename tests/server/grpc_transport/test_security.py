"""Certificates and tokens at a real port, also renewed ones while the server runs."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from octofold_client import Client, Credentials
from octofold_client.cli import main as octofold
from octofold_proto.errors import NotAllowed, Unauthenticated
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_proto.status import error_of, status_of_call
from octofold_server.system.tls import Tls
from octofold_server.system.watched_files import FileError
from support.certificates import Authority, Pair
from support.grpc_calls import health_stub, trailing_metadata
from support.servers import ServerProcess, Start, WriteVersion
from support.waiting import wait_for

LIMIT_SECONDS = 60
PLAIN, ANOTHER, ADMIN = "token-of-a-client", "token-of-another", "token-of-an-admin"
ASKED = pb.NextMovesRequest(boards=bytes([1] * 16))


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


class Secured:
    """A server that requires certificates and tokens, and channels of its clients."""

    def __init__(self, server: ServerProcess, authority: Authority, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.authority = authority
        self.client = authority.issue("client")
        self.rest_port = server.rest_port

    def channel(self, client: Pair | None = None, authority: Path | None = None) -> grpc.Channel:
        roots = (authority or self.authority.certificate).read_bytes()
        key = client.key.read_bytes() if client else None
        chain = client.certificate.read_bytes() if client else None
        return grpc.secure_channel(self.server.target, grpc.ssl_channel_credentials(roots, key, chain))

    def refuses(self, channel: grpc.Channel) -> bool:
        """Return whether the server refuses the connection."""
        with channel:
            try:
                OctofoldServiceStub(channel).NextMoves(ASKED, timeout=60, metadata=bearer(PLAIN))
            except grpc.RpcError as error:
                return error.code() is grpc.StatusCode.UNAVAILABLE
            return False

    def metric(self, name: str) -> float:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        context.load_cert_chain(self.client.certificate, self.client.key)
        page = urllib.request.Request(f"https://127.0.0.1:{self.rest_port}/metrics")
        page.add_header("Authorization", f"Bearer {PLAIN}")
        with urllib.request.urlopen(page, context=context) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def failed_handshakes(self) -> float:
        return self.metric("octofold_failed_handshakes_total")


@pytest.fixture
def secured(write_version: WriteVersion, start_server: Start, tmp_path: Path) -> Iterator[Secured]:
    write_version()
    authority = Authority(tmp_path, "authority")
    own = authority.issue("server")
    (tmp_path / "tokens").write_text(f"{PLAIN}\n\n{ANOTHER}\n", encoding="utf-8")
    (tmp_path / "admin-tokens").write_text(f"{ADMIN}\n", encoding="utf-8")
    server = start_server(
        *("--tls-certificate", str(own.certificate), "--tls-key", str(own.key)),
        *("--tls-client-ca", str(authority.certificate)),
        *("--tokens", str(tmp_path / "tokens"), "--admin-tokens", str(tmp_path / "admin-tokens")),
        *("--log-format", "json"),
        rest=True,
    )
    yield Secured(server, authority, tmp_path)
    assert server.terminate() == 0
    for line in server.log.splitlines():
        assert json.loads(line)["level"] in ("info", "warning", "error")
    for secret in (PLAIN, ANOTHER, ADMIN):
        assert secret not in server.log


def test_only_clients_with_a_certificate_of_the_authority_and_a_token_of_the_file_are_authorized(
    secured: Secured,
) -> None:
    other = Authority(secured.folder, "other")
    expired = secured.authority.issue("expired", days=-1)
    handshakes = secured.failed_handshakes()
    refused = (
        grpc.insecure_channel(secured.server.target),
        secured.channel(),
        secured.channel(expired),
        secured.channel(other.issue("stranger")),
    )
    for channel in refused:
        assert secured.refuses(channel)
    reasons = {"wrong version number", "peer did not return", "certificate has expired"}
    wait_for(lambda: all(reason in secured.server.log.lower().replace("_", " ") for reason in reasons))
    wait_for(lambda: secured.failed_handshakes() - handshakes >= len(refused))  # a client may try again

    with secured.channel(secured.client) as channel:
        stub = OctofoldServiceStub(channel)
        for token in (PLAIN, ANOTHER, ADMIN):
            assert stub.NextMoves(ASKED, metadata=bearer(token)).moves == b"\0"
        wrong: tuple[Any, ...] = (
            (),
            bearer("wrong"),
            bearer(PLAIN[:-1]),
            bearer(""),
            (("authorization", f"Basic {PLAIN}"),),
            (("authorization", PLAIN),),
        )
        calls: tuple[Callable[[Any], object], ...] = (
            lambda m: stub.NextMoves(ASKED, metadata=m),
            lambda m: next(stub.StreamNextMoves(iter([pb.StreamNextMovesRequest()]), metadata=m)),
            lambda m: stub.ListModels(pb.ListModelsRequest(), metadata=m),
        )
        for metadata in wrong:
            for call in calls:
                with pytest.raises(grpc.RpcError) as failure:
                    call((*metadata, ("x-request-id", "call-7")))
                assert failure.value.code() is grpc.StatusCode.UNAUTHENTICATED
                trailing = trailing_metadata(failure.value)
                assert ("x-request-id", "call-7") in trailing
                status = status_of_call(failure.value.code(), failure.value.details(), trailing)
                assert isinstance(error_of(status), Unauthenticated)
        asked = len(calls) * len(wrong)
        assert secured.metric('octofold_failures_total{model="",version="",code="UNAUTHENTICATED"}') == asked
        lines = [json.loads(line) for line in secured.server.log.splitlines()]
        told = [line for line in lines if line.get("code") == "UNAUTHENTICATED"]
        assert len(told) == asked
        assert {line["request_id"] for line in told} == {"call-7"}
        assert all("127.0.0.1" in line["client"] for line in told)
        health_stub(channel).Check(health_pb2.HealthCheckRequest())  # this reply cannot carry a request id


def test_our_client_and_command_are_authorized_with_their_files_and_token(
    secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    pair, token = secured.client, secured.folder / "token"
    token.write_text(f"{PLAIN}\n", encoding="utf-8")
    from_files = partial(
        Credentials.from_files,
        authorities=secured.authority.certificate,
        certificate=pair.certificate,
        key=pair.key,
    )
    target = secured.server.target
    with Client(target, credentials=from_files(token=token)) as client:
        assert len(client.next_moves([[1] * 16]).moves) == 1
    with (
        Client(target, credentials=from_files(environment={})) as client,
        pytest.raises(Unauthenticated),
    ):
        client.next_moves([[1] * 16])

    flags = ["--target", target, "--token-file", token, "--tls-ca", secured.authority.certificate]
    flags += ["--tls-certificate", pair.certificate, "--tls-key", pair.key]
    assert octofold(["ready", *map(str, flags)]) == 0
    assert octofold(["models", *map(str, flags)]) == 0
    assert "ready" in capsys.readouterr().out


def test_the_rest_port_refuses_the_same_clients_and_counts_them(secured: Secured) -> None:
    other = Authority(secured.folder, "other")
    handshakes = secured.failed_handshakes()

    def is_refused(scheme: str, client: Pair | None) -> bool:
        context = ssl.create_default_context(cafile=str(secured.authority.certificate))
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        try:
            url = f"{scheme}://127.0.0.1:{secured.rest_port}/healthz"
            urllib.request.urlopen(url, context=context if scheme == "https" else None).close()
        except (OSError, http.client.HTTPException):
            return True
        return False

    assert not is_refused("https", secured.client)
    assert is_refused("http", None)
    assert is_refused("https", None)
    assert is_refused("https", secured.authority.issue("expired", days=-1))
    assert is_refused("https", other.issue("stranger"))
    wait_for(lambda: secured.failed_handshakes() - handshakes == 4)
    assert "certificate has expired" in secured.server.log.lower().replace("_", " ")
    lines = [json.loads(line) for line in secured.server.log.splitlines()]
    clients = [line.get("client") for line in lines if "TLS handshake failed" in line["message"]]
    assert clients == ["127.0.0.1"] * 4


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_rest_port_resumes_no_tls_session(secured: Secured, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context(cafile=str(secured.authority.certificate))
    context.load_cert_chain(secured.client.certificate, secured.client.key)
    context.maximum_version = version

    def connect(session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        with (
            socket.create_connection(("127.0.0.1", secured.rest_port), timeout=LIMIT_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as connection,
        ):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if not connection.recv(1000):  # session tickets would come before this reply
                raise ConnectionResetError
            assert not connection.session_reused
            return connection.session

    session = connect(connect(None))
    renewed = Authority(secured.folder, "renewed")
    replace_with(secured.folder / "authority.pem", renewed.certificate.read_bytes())

    def is_refused() -> bool:
        try:
            connect(session)
        except OSError:  # the connection may end in several ways
            return True
        return False

    wait_for(is_refused)


def test_loading_and_unloading_require_an_admin_token(secured: Secured) -> None:
    with secured.channel(secured.client) as channel:
        stub = GRPCInferenceServiceStub(channel)
        request = oip.RepositoryModelUnloadRequest(model_name="tiny")
        with pytest.raises(grpc.RpcError) as failure:
            stub.RepositoryModelUnload(request, metadata=bearer(PLAIN))
        assert failure.value.code() is grpc.StatusCode.PERMISSION_DENIED
        status = status_of_call(failure.value.code(), failure.value.details(), None)
        assert isinstance(error_of(status), NotAllowed)
        stub.RepositoryModelUnload(request, metadata=bearer(ADMIN))
        stub.RepositoryModelLoad(oip.RepositoryModelLoadRequest(model_name="tiny"), metadata=bearer(ADMIN))


@pytest.mark.parametrize(
    ("broken", "content", "message"),
    [
        ("server.pem", None, "server.pem cannot be read: No such file or directory"),
        ("server.key", b"", "server.pem and .*server.key are not a certificate and its key"),
        ("server.pem", b"not PEM", "server.pem and .*server.key are not a certificate and its key"),
        ("server.key", "client.key", "not a certificate and its key: key values mismatch"),
        ("authority.pem", b"not PEM", "authority.pem contains no certificates"),
        ("server.pem", b"\xef\xbb\xbf-----BEGIN", "server.pem begins with a byte order mark"),
        (
            "server.key",
            b"-----BEGIN ENCRYPTED PRIVATE KEY-----",
            "server.key is encrypted; .* without a passphrase",
        ),
        ("server.key", b"-----BEGIN RSA\nProc-Type: 4,ENCRYPTED", "server.key is encrypted"),
    ],
)
def test_invalid_tls_files_are_named_in_an_error_at_the_start(
    tmp_path: Path, broken: str, content: bytes | str | None, message: str
) -> None:
    authority = Authority(tmp_path, "authority")
    own = authority.issue("server")
    authority.issue("client")
    if content is None:
        (tmp_path / broken).unlink()
    else:
        content = (tmp_path / content).read_bytes() if isinstance(content, str) else content
        (tmp_path / broken).write_bytes(content)
    with pytest.raises(FileError, match=message):
        Tls(own.certificate, own.key, authority.certificate)


def test_a_context_has_the_last_valid_files_although_one_is_gone(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    own = authority.issue("server")
    tls = Tls(own.certificate, own.key, authority.certificate)
    own.key.unlink()
    assert tls.context().verify_mode is ssl.CERT_REQUIRED


def test_renewed_files_are_used_by_new_connections_and_broken_ones_are_not(secured: Secured) -> None:
    names = ("server.pem", "server.key", "authority.pem")
    renewed = Authority(secured.folder, "renewed")
    stranger, served = renewed.issue("stranger"), renewed.issue("served")
    files = (served.certificate, served.key, renewed.certificate)
    old = {name: (secured.folder / name).read_bytes() for name in names}
    with secured.channel(secured.client) as before:
        stub = OctofoldServiceStub(before)
        stub.NextMoves(ASKED, metadata=bearer(PLAIN))
        (secured.folder / "server.key").write_bytes(b"not a key")
        wait_for(lambda: "cannot use changed files" in secured.server.log)
        with secured.channel(secured.client) as channel:
            OctofoldServiceStub(channel).NextMoves(ASKED, metadata=bearer(PLAIN))
        for name, file in zip(names, files, strict=True):
            replace_with(secured.folder / name, file.read_bytes())
        wait_for(lambda: not secured.refuses(secured.channel(stranger, renewed.certificate)))
        assert secured.refuses(secured.channel(secured.client, renewed.certificate))
        stub.NextMoves(ASKED, metadata=bearer(PLAIN))  # on the earlier connection
        context = ssl.create_default_context(cafile=str(renewed.certificate))
        context.load_cert_chain(stranger.certificate, stranger.key)
        urllib.request.urlopen(f"https://127.0.0.1:{secured.rest_port}/healthz", context=context).close()
        with pytest.raises(OSError, match=r"SSL|reset|closed|Broken pipe"):
            secured.metric("octofold")
        for name in names:
            replace_with(secured.folder / name, old[name])

        tokens = secured.folder / "tokens"

        def is_known(token: str) -> bool:
            try:
                stub.NextMoves(ASKED, metadata=bearer(token))
            except grpc.RpcError as error:
                return error.code() is not grpc.StatusCode.UNAUTHENTICATED
            return True

        tokens.write_text("renewed\n", encoding="utf-8")
        wait_for(lambda: is_known("renewed"))
        assert not is_known(PLAIN)
        tokens.write_text("", encoding="utf-8")
        wait_for(lambda: not is_known("renewed"))
        assert "contains no tokens; the tokens that it contained are revoked" in secured.server.log
        tokens.write_text(f"{PLAIN}\n", encoding="utf-8")
        wait_for(lambda: is_known(PLAIN))
        tokens.write_text("not a token\n", encoding="utf-8")
        wait_for(lambda: "line 1 is not a token" in secured.server.log)
        assert is_known(PLAIN)
        tokens.unlink()
        wait_for(lambda: not is_known(PLAIN))


def replace_with(file: Path, content: bytes) -> None:
    beside = file.with_suffix(".new")
    beside.write_bytes(content)
    os.replace(beside, file)  # noqa: PTH105 -- what a tool that renews certificates does
