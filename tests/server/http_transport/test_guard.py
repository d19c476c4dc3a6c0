"""Requests from browsers: the server's own page may send any, pages of other sites none."""

from __future__ import annotations

from pathlib import Path

import pytest
from octofold_server.http_transport.guard import is_loopback_host
from support.fakes import FakeBackend
from support.servers import Ask, ServeAll, Served

UNLOAD = "/v2/repository/models/fake/unload"
READY = "/v2/models/fake/ready"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://evil.example", "Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},  # a form
    ],
)
def test_a_page_of_another_site_cannot_unload_a_model(
    ask: Ask, server: Served, headers: dict[str, str]
) -> None:
    reply = ask(server, "POST", UNLOAD, **headers)
    assert reply.status == 403
    assert "requests from pages of other sites are refused" in reply.json["error"]
    assert ask(server, "GET", READY).status == 200
    assert server.admission.refusals.counts()["PERMISSION_DENIED"] == 1


@pytest.mark.parametrize("place", ["iframe", "object"])
def test_a_page_of_another_site_cannot_use_the_model_in_its_frames(
    ask: Ask, server: Served, place: str
) -> None:
    frame = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": place}
    assert ask(server, "GET", f"/move?board={16 * '1'}", **frame).status == 403


def test_the_servers_own_page_may_do_everything(ask: Ask, server: Served) -> None:
    origin = f"http://127.0.0.1:{server.rest_port}"
    assert ask(server, "GET", "/page/about", Sec_Fetch_Site="same-origin").status == 200
    assert ask(server, "POST", UNLOAD, Origin=origin, Sec_Fetch_Site="same-origin").status == 200
    assert ask(server, "POST", UNLOAD.replace("unload", "load"), Origin=origin).status == 200


def test_a_page_behind_a_proxy_with_another_host_may_do_everything(ask: Ask, server: Served) -> None:
    origin = "https://octofold.example"
    assert ask(server, "POST", UNLOAD, Origin=origin, Sec_Fetch_Site="same-origin").status == 200


def test_links_from_other_sites_work(ask: Ask, server: Served) -> None:
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert ask(server, "GET", "/", **link).status == 200
    assert ask(server, "GET", "/metrics", **link).status == 200
    assert ask(server, "GET", "/metrics", **link, Sec_Fetch_Dest="document").status == 200


@pytest.mark.parametrize("path", ["/metrics", "/page/about", f"/move?board={16 * '1'}"])
def test_a_site_whose_name_resolves_to_loopback_reads_nothing(ask: Ask, server: Served, path: str) -> None:
    host = f"evil.example:{server.rest_port}"
    reply = ask(server, "GET", path, Host=host, Origin=f"http://{host}", Sec_Fetch_Site="same-origin")
    assert reply.status == 403
    assert f"accepts only requests for the host localhost or 127.0.0.1, got '{host}'" in reply.json["error"]
    assert ask(server, "GET", path, Host="localhost").status == 200
    assert ask(server, "GET", "/readyz", Host=host).status == 200  # probes may use any host name


def test_a_server_with_tokens_accepts_any_host(ask: Ask, serve_all: ServeAll, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("friend")
    with serve_all(FakeBackend(), tokens=tmp_path / "tokens") as served:
        assert ask(served, "GET", "/v2", Host="octofold.example", Authorization="Bearer friend").status == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1:8000", True),
        ("[::1]", True),
        ("[::ffff:127.0.0.1]:8000", True),
        ("[::ffff:192.168.0.1]", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example:8000", False),
        ("192.168.0.1", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_only_names_and_addresses_of_this_machine_are_loopback(host: str, expected: bool) -> None:
    assert is_loopback_host(host) == expected
