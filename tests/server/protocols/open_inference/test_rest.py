"""The Open Inference Protocol over REST: tensors in JSON and in binary, statuses, limits, wrong requests."""

from __future__ import annotations

import gc
import http.client
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from octofold_server.admission.admission import AcceptedCall
from support.fakes import FakeBackend, RecordingBackend, fake_moves
from support.rest_requests import BOARDS, INFER, JSON_LENGTH, binary, described
from support.servers import Ask, ServeAll, Served
from support.waiting import wait_for


def test_binary_tensors_follow_the_json_in_and_out(ask: Ask, server: Served) -> None:
    raw = BOARDS.tobytes()
    request = {
        "inputs": [described(parameters={"binary_data_size": len(raw)})],
        "outputs": [
            {"name": "votes", "parameters": {"binary_data": True}},
            {"name": "move"},
            {"name": "legal", "parameters": {"binary_data": True}},
        ],
    }
    body, headers = binary(request, raw)
    reply = ask(server, "POST", INFER, body, **headers)
    votes, move, legal = reply.json["outputs"]
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert move["data"] == fake_moves(BOARDS).moves.tolist()
    tail = reply.body[int(reply.headers[JSON_LENGTH]) :]
    assert (votes["parameters"], legal["parameters"]) == (
        {"binary_data_size": 160},
        {"binary_data_size": 160},
    )
    assert tail == fake_moves(BOARDS).votes.tobytes() + fake_moves(BOARDS).legal.tobytes()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "JSON of the request is invalid"),
        ("[" * 100_000, "JSON of the request is invalid"),
        ({"outputs": []}, "missing required field `inputs`"),
        ({"inputs": [{"name": "boards"}]}, "missing required field `datatype` - at `$.inputs[0]`"),
        (
            {"inputs": [described(data=["1"] * 640)]},
            "'boards' must be an array of integers, or an array of arrays of integers: Expected `int`",
        ),
        ({"inputs": [described(data=[1.5] * 640)]}, "Expected `int`, got `float` - at `$[0]`"),
        ({"inputs": [described()]}, "input 'boards' must have either data or binary_data_size, got neither"),
        (
            {"inputs": [described(data=[1] * (16 * 65_536 + 1))]},
            "must have at most 1048576 elements, got 1048577",
        ),
        ({"inputs": [described(data=[1] * 639)]}, "must have 640 elements, got 639"),
        ({"inputs": [described(data=[1] * 639 + [-1])]}, "board 39, cell 15: exponent -1"),
        ({"inputs": [described(data=[16] + [1] * 639)]}, "board 0, cell 0: fake supports tiles up to 32768"),
        ({"inputs": [described(data=[1] * 600 + [10**30] * 40)]}, "at `$[600]`"),
        ({"inputs": [described(data=[], shape=[10**30, 16])]}, "the shape of input 'boards'"),
        ({"inputs": [described(data=[], shape=[2**63 - 1, 16])]}, "elements, got 0"),
        (
            {"inputs": [described(data=[], parameters={"binary_data_size": 3})]},
            "input 'boards' must have either data or binary_data_size, got both",
        ),
        (
            {"inputs": [described(parameters={"binary_data_size": 640})]},
            "must be at most 0, the number of bytes that remain in the body, got 640",
        ),
        (
            {"inputs": [described(data=[1] * 640)], "parameters": {"priority": 9}},
            "Expected `int` <= 2 - at `$.priority`",
        ),
        (
            {
                "inputs": [described(data=[1] * 640)],
                "outputs": [{"name": "move", "parameters": {"binary_data": "false"}}],
            },
            "Expected `bool | null`, got `str` - at `$.binary_data`",
        ),
    ],
)
def test_a_wrong_body_is_refused_with_the_wrong_part_and_does_not_run(
    ask: Ask, serve_all: ServeAll, body: Any, message: str
) -> None:
    backend = RecordingBackend()
    with serve_all(backend) as served:
        reply = ask(served, "POST", INFER, body)
        assert reply.status == 400
        assert message in reply.json["error"]
        assert len(reply.json["error"]) < 300
        assert backend.rows == 0


def test_bytes_that_belong_to_no_input_are_refused(ask: Ask, server: Served) -> None:
    body, headers = binary({"inputs": [described(parameters={"binary_data_size": 640})]}, bytes(641))
    assert "that belong to no input: 1;" in ask(server, "POST", INFER, body, **headers).json["error"]
    for length in ("-1", "x", "9" * 30, ""):
        reply = ask(server, "POST", INFER, body, Inference_Header_Content_Length=length)
        assert (reply.status, reply.json["error"]) == (
            400,
            f"the header {JSON_LENGTH} must be a number of bytes (1 to 9 digits), got {length!r}",
        )
    reply = ask(server, "POST", INFER, body, Inference_Header_Content_Length="99999")
    assert "the size of the body, got 99999" in reply.json["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/models/nobody", 404),
        ("GET", "/v2/models/fake/infer", 405),
        ("GET", "/v2/../../etc/passwd", 404),
        ("GET", "/v2/models/%00%2F..%2f", 404),
        ("POST", "/v2/repository/models/nobody/load", 404),
        ("POST", "/v2/models/nobody/infer", 400),  # the body is not a request
    ],
)
def test_a_wrong_path_method_or_model_over_rest_is_an_error_object_of_the_protocol(
    ask: Ask, server: Served, method: str, path: str, status: int
) -> None:
    reply = ask(server, method, path)
    assert reply.status == status
    assert isinstance(reply.json["error"], str)


def test_probes_agree_with_the_statuses_of_calls(ask: Ask, server: Served) -> None:
    def probes() -> list[int]:
        paths = ("/healthz", "/v2/health/live", "/readyz", "/v2/health/ready", "/v2/models/fake/ready")
        return [ask(server, "GET", path).status for path in paths]

    assert probes() == [200, 200, 200, 200, 200]
    server.admission.leave()
    assert probes() == [200, 200, 503, 503, 503]
    assert ask(server, "POST", INFER, {"inputs": [described(data=BOARDS.tolist())]}).status == 200
    server.admission.refuse()
    reply = ask(server, "POST", INFER, {"inputs": [described(data=BOARDS.tolist())]})
    assert (reply.status, reply.json) == (503, {"error": "the server is shutting down"})


def test_a_full_queue_answers_with_retry_after(ask: Ask, serve_all: ServeAll) -> None:
    backend = RecordingBackend()
    with serve_all(backend, queue_capacity=40) as served:
        backend.gate.clear()
        replies: list[Any] = []

        def call() -> None:
            replies.append(ask(served, "POST", INFER, {"inputs": [described(data=BOARDS.tolist())]}))

        callers = [threading.Thread(target=call) for _ in range(3)]
        for caller in callers:
            caller.start()
        backend.started.acquire()
        wait_for(lambda: bool(replies))
        assert replies[0].status == 429
        assert int(replies[0].headers["Retry-After"]) >= 1
        backend.gate.set()
        for caller in callers:
            caller.join()
        assert {reply.status for reply in replies[1:]} <= {200, 429}


def test_a_failed_call_is_freed(ask: Ask, serve_all: ServeAll) -> None:
    def in_memory() -> int:
        return sum(type(one) is AcceptedCall for one in gc.get_objects())

    backend = RecordingBackend()
    with serve_all(backend) as served:
        backend.gate.clear()
        body = {"inputs": [described(data=BOARDS.tolist())], "parameters": {"timeout": 50_000}}
        before = in_memory()
        gc.disable()
        try:
            assert ask(served, "POST", INFER, body).status == 504
            backend.gate.set()
            wait_for(lambda: in_memory() <= before)
        finally:
            gc.enable()


def test_all_requests_but_probes_need_tokens(ask: Ask, serve_all: ServeAll, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("plain\n")
    (tmp_path / "admins").write_text("admin\n")
    with serve_all(FakeBackend(), tokens=tmp_path / "tokens", admin_tokens=tmp_path / "admins") as served:

        def status(method: str, path: str, token: str | None) -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return ask(served, method, path, **headers).status

        for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"):
            assert status("GET", path, None) == 200
        for path in ("/metrics", "/v2", "/v2/models/fake"):
            assert [status("GET", path, token) for token in (None, "wrong", "plain", "admin")] == [
                401,
                401,
                200,
                200,
            ]
        load = "/v2/repository/models/fake/load"
        assert [status("POST", load, token) for token in (None, "plain", "admin")] == [401, 403, 200]
        assert served.admission.refusals.counts() == {"UNAUTHENTICATED": 7, "PERMISSION_DENIED": 1}


def test_a_failed_call_returns_the_request_id_of_its_caller(ask: Ask, server: Served) -> None:
    reply = ask(server, "GET", "/v2/models/nobody", X_Request_Id="mine-7")
    assert reply.headers["X-Request-Id"] == "mine-7"
    body = {"id": "mine-8", "inputs": [described(data=[16] * 640)]}
    assert ask(server, "POST", INFER, body).headers["X-Request-Id"] == "mine-8"
    unfit = ask(server, "GET", "/v2/models/nobody", X_Request_Id="a b")
    assert len(unfit.headers["X-Request-Id"]) == 16


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
    assert (code, json.loads(body)) == (
        400,
        {"error": "the header Authorization must have one value, got several"},
    )
