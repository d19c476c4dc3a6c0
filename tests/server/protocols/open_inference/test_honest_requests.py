"""What honest clients of REST send beside the obvious is taken, or refused with what helps them."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import zlib
from typing import Any

import pytest
from support.fakes import FakeBackend, fake_moves
from support.rest_requests import BOARDS, INFER, described
from support.servers import Ask, ServeAll, Served

REQUEST = {"inputs": [described(data=BOARDS.tolist())], "outputs": [{"name": "move"}]}
BODY = json.dumps(REQUEST).encode()


@pytest.mark.parametrize(
    "nulls",
    [
        {"id": None, "parameters": None, "outputs": None},
        {"inputs": [described(data=BOARDS.tolist(), parameters=None)]},
        {"outputs": [{"name": "move", "parameters": None}]},
    ],
)
def test_null_means_that_an_optional_field_is_left_out(
    ask: Ask, server: Served, nulls: dict[str, Any]
) -> None:
    reply = ask(server, "POST", INFER, {**REQUEST, **nulls})
    assert reply.status == 200, reply.body
    assert "id" not in reply.json


def test_null_means_the_same_for_the_repository(ask: Ask, server: Served) -> None:
    assert ask(server, "POST", "/v2/repository/index", {"ready": None}).status == 200


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("gzip", gzip.compress(BODY)), ("deflate", zlib.compress(BODY)), ("identity", BODY)],
)
def test_compressed_bodies_are_taken(ask: Ask, server: Served, encoding: str, body: bytes) -> None:
    reply = ask(server, "POST", INFER, body, Content_Encoding=encoding)
    assert reply.json["outputs"][0]["data"] == fake_moves(BOARDS).moves.tolist()


@pytest.mark.parametrize(
    ("encoding", "body", "status", "error"),
    [
        ("gzip", BODY, 400, "not compressed by gzip"),
        ("gzip", gzip.compress(BODY)[:-9], 400, "not compressed by gzip"),
        ("gzip", gzip.compress(BODY) + b"more", 400, "not compressed by gzip"),
        ("br", BODY, 415, "may be compressed by gzip or deflate"),
        ("identity", gzip.compress(BODY), 400, "with the header Content-Encoding: gzip"),
    ],
)
def test_a_body_that_is_not_compressed_as_it_says_is_refused(
    ask: Ask, server: Served, encoding: str, body: bytes, status: int, error: str
) -> None:
    reply = ask(server, "POST", INFER, body, Content_Encoding=encoding)
    assert reply.status == status
    assert error in reply.json["error"]


def test_a_small_body_is_not_inflated_beyond_the_largest_that_is_taken(ask: Ask, serve_all: ServeAll) -> None:
    bomb = zlib.compress(bytes(60_000_000))
    with serve_all(FakeBackend(), max_message_bytes=10_000_000) as served:
        reply = ask(served, "POST", INFER, bomb, Content_Encoding="deflate")
        assert reply.status == 413
        assert "larger than the 10000000 bytes" in reply.json["error"]
        assert served.admission.budget.used == 0


def test_an_inflated_body_counts_with_its_whole_size(ask: Ask, serve_all: ServeAll) -> None:
    body = zlib.compress(b" " * 5_000_000)
    with serve_all(FakeBackend(), max_bytes_in_flight=4_000_000) as served:
        reply = ask(served, "POST", INFER, body, Content_Encoding="deflate")
        assert reply.status == 429
        assert served.admission.budget.used == 0


def test_two_headers_with_different_values_are_refused(server: Served) -> None:
    def status(*values: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=30)
        connection.putrequest("GET", "/v2")
        for value in values:
            connection.putheader("Authorization", value)
        connection.endheaders()
        reply = connection.getresponse()
        found = reply.status, reply.read()
        connection.close()
        return found

    assert status("Bearer a", "Bearer a")[0] == 200
    code, body = status("Bearer a", "Bearer b")
    assert (code, json.loads(body)) == (400, {"error": "two headers Authorization with different values"})


def test_what_is_not_http_gets_an_error_of_the_protocol(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=30) as client:
        client.sendall(b"no http\r\n\r\n")
        reply = client.makefile("rb").read()
    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400") or head.startswith(b"HTTP/1.0 400")
    assert set(json.loads(body)) == {"error"}


def test_an_expectation_that_nobody_knows_gets_an_error_of_the_protocol(ask: Ask, server: Served) -> None:
    reply = ask(server, "GET", "/v2", Expect="200-ok")
    assert (reply.status, reply.json) == (417, {"error": "the header Expect may only be 100-continue"})
    assert ask(server, "GET", "/v2", Expect="100-continue").status == 200
