"""What honest clients of REST send beside the obvious is taken, or refused with what helps them."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest
from support.rest_requests import BOARDS, INFER, described
from support.servers import Ask, Served

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


def test_a_compressed_body_is_refused(ask: Ask, server: Served) -> None:
    reply = ask(server, "POST", INFER, BODY, Content_Encoding="gzip")
    assert (reply.status, reply.json) == (415, {"error": "a body must not be compressed"})
    assert ask(server, "POST", INFER, BODY, Content_Encoding="identity").status == 200


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
