"""The format of log lines, and failures that can be found by the request id in the caller's error."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RequestInfo
from octofold_proto.errors import UnknownModel
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.status import status_of_call
from octofold_server.admission.refusals import failure_status, usable_request_id
from octofold_server.system.logs import JsonLines, TextLines
from support.grpc_calls import trailing_metadata
from support.served import stub_of
from support.servers import Start, WriteVersion


def record(message: str, **extra: Any) -> logging.LogRecord:
    return logging.getLogger("place").makeRecord(
        "place", logging.WARNING, __file__, 1, message, (), extra.pop("exc_info", None), extra=extra
    )


def test_a_json_line_is_one_object_whatever_the_message() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        failure = sys.exc_info()
    line = JsonLines().format(
        record('said "no"\n', fields={"code": "X", "path": Path("/a")}, exc_info=failure)
    )
    assert "\n" not in line
    entry = json.loads(line)
    assert entry["message"] == 'said "no"\n'
    assert (entry["level"], entry["logger"], entry["code"], entry["path"]) == (
        "warning",
        "place",
        "X",
        "/a",
    )
    assert entry["time"].endswith("+00:00")
    assert "ValueError: two" in entry["traceback"]


def test_text_of_callers_cannot_start_a_line_and_a_traceback_keeps_its_lines() -> None:
    line = TextLines().format(record("no model 'a\n2026 INFO forged\x1b[2J'", fields={"call": "\r\udc80"}))
    assert line.endswith("no model 'a\\n2026 INFO forged\\x1b[2J' [call=\"\\r\\udc80\"]")
    try:
        raise ValueError("why")
    except ValueError:
        lines = TextLines().format(record("unexpected", exc_info=sys.exc_info())).splitlines()
    assert lines[-1] == "ValueError: why"
    assert len(lines) > 3


@pytest.mark.parametrize("letter", ["x", "\u00e4", "\U0001f600", "\n"])
def test_an_error_message_fits_into_trailing_metadata(letter: str) -> None:
    status = failure_status(UnknownModel(letter * 20_000), "NextMove", "id")
    assert 900 < len(status.message.encode()) <= 1000
    assert status.message.endswith("...")


@pytest.mark.parametrize("wanted", [None, "", "with space", "new\nline", "x" * 129, "\u00e4"])
def test_a_request_id_that_is_unsafe_for_a_log_is_replaced(wanted: str | None) -> None:
    first, second = usable_request_id(wanted), usable_request_id(wanted)
    assert first != wanted
    assert first != second


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [((), "no models in"), (("--host", ".."), "cannot listen on ..:0: '..' is not the name of a host")],
)
def test_a_server_that_cannot_start_also_logs_json(
    tmp_path: Path, start_server: Start, processes: str, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "models").mkdir()
    server = start_server("--log-format", "json", "--processes", processes, *arguments, ready=False)
    assert server.wait() == 1
    (entry,) = [json.loads(line) for line in server.log.splitlines()]
    assert entry["level"] == "critical"
    assert entry["message"].startswith(message)


def test_a_failed_call_is_found_in_the_log_by_the_id_that_its_caller_got(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--log-format", "json", "--log-level", "debug")
    bad = pb.NextMovesRequest(boards=b"short")
    with stub_of(server.target) as stub:
        ids = []
        for metadata in ((), (("x-request-id", "mine-1"),)):
            with pytest.raises(grpc.RpcError) as failure:
                stub.NextMoves(bad, metadata=metadata)
            trailing = dict(trailing_metadata(failure.value))
            ids.append(trailing["x-request-id"])
            details = RequestInfo()
            status = status_of_call(failure.value.code(), failure.value.details(), trailing.items())
            assert any(detail.Unpack(details) for detail in status.details)
            assert details.request_id == ids[-1]
        messages = [pb.StreamNextMovesRequest(id=5, request=bad)]
        (answer,) = stub.StreamNextMoves(iter(messages), metadata=(("x-request-id", "mine-2"),))
        details = RequestInfo()
        assert any(detail.Unpack(details) for detail in answer.error.details)
        ids.append(details.request_id)
    assert server.terminate() == 0
    assert ids[1:] == ["mine-1", "mine-2/5"]
    lines = [json.loads(line) for line in server.log.splitlines()]
    entry = {line["request_id"]: line for line in lines if "request_id" in line}
    for identity in ids:
        assert entry[identity]["code"] == "INVALID_ARGUMENT"
        assert "board 0 ends before its cell 5" in entry[identity]["message"]
