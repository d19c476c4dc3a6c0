"""Credentials are read from files and variables; a token goes only to allowed targets and is never shown."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from octofold_client import AsyncClient, Client, Credentials, InvalidRequest


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("open-sesame\n")
    return file


def test_a_token_comes_from_its_file_or_else_from_the_environment(token_file: Path) -> None:
    environment = {"OCTOFOLD_TOKEN": "another\n"}
    named = Credentials.from_files(token=token_file, environment=environment)
    assert named.metadata == (("authorization", "Bearer open-sesame"),)
    assert Credentials.from_files(environment=environment).token == "another"
    assert Credentials.from_files(environment={}).metadata == ()


def test_a_token_is_never_printed(token_file: Path) -> None:
    assert "sesame" not in repr(Credentials.from_files(token=token_file))


@pytest.mark.parametrize(
    "target",
    [
        "example.org:50051",
        "10.0.0.1:50051",
        "[2001:db8::1]:50051",
        "127.0.0.1:50051,10.0.0.1:50051",
        "dns://10.0.0.1:53/localhost:50051",
    ],
)
def test_a_token_leaves_this_machine_only_over_tls(target: str) -> None:
    with pytest.raises(InvalidRequest, match="a token needs TLS"):
        Client(target, credentials=Credentials(token="open-sesame"))
    Client(target, credentials=Credentials(tls=True, token="open-sesame")).close()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A proxy that never answers; environment variables make it the proxy of all calls."""
    for variable in ("grpc_proxy", "https_proxy", "no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{listening.getsockname()[1]}")
        yield listening


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_calls_to_this_machine_go_through_no_proxy(
    target: str, host: str, proxy: socket.socket
) -> None:
    credentials = Credentials(token="open-sesame")
    here = target.replace("127.0.0.1", host)
    with Client(here, credentials=credentials, timeout_seconds=10.0) as client:
        assert client.list_models()
    async with AsyncClient(here, credentials=credentials, timeout_seconds=10.0) as client:
        assert await client.list_models()
    with pytest.raises(BlockingIOError):  # nobody has connected
        proxy.accept()


@pytest.mark.parametrize("content", ["", " \n", "two words", "caf\u00e9", "one\ntwo"])
def test_a_file_without_a_token_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidRequest, match="token: a token must be one word"):
        Credentials.from_files(token=file)
