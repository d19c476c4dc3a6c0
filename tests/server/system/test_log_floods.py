"""Clients cannot fill the disk through the log, or write text into it that looks like the server's own."""

from __future__ import annotations

import http.client
import json
import logging
import re
from pathlib import Path

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_server.system.logs import MAX_LINES, RepeatLimit, TextLines
from support.http2 import RawConnection
from support.http2_frames import END_STREAM
from support.served import stub_of
from support.servers import ServerProcess, Start, WriteVersion

METHOD = "/octofold.v1.OctofoldService/NextMoves"
CALLS = 40


@pytest.fixture(params=["text", "json"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(form: str, write_version: WriteVersion, start_server: Start, tmp_path: Path) -> ServerProcess:
    write_version("fake")
    (tmp_path / "tokens").write_text("a-token\n")
    arguments = ["--tokens", str(tmp_path / "tokens"), "--log-format", form]
    return start_server(*arguments, rest=True)


def left_out(log: str) -> int:
    """Return the number of lines that the log reports as omitted."""
    return sum(int(count) for count in re.findall(r"similar lines omitted: (\d+)", log))


def test_calls_with_an_unknown_encoding_are_counted_and_not_logged_one_by_one(
    write_version: WriteVersion, start_server: Start, form: str
) -> None:
    write_version("fake")
    server = start_server("--transport", "direct", "--log-format", form)
    calls = 3 * MAX_LINES
    headers = [(b"grpc-encoding", b"nonsense")]
    with RawConnection(server.target) as connection:
        for _ in range(calls):
            connection.begin(METHOD, headers, END_STREAM)
        assert connection.wait_for_ends(calls)
    assert server.terminate() == 0
    logged = server.log.count("Error parsing 'grpc-encoding' metadata")
    assert 0 < logged < calls
    assert logged + left_out(server.log) > calls


def test_calls_without_a_token_are_counted_and_not_logged_one_by_one(server: ServerProcess) -> None:
    calls = 3 * MAX_LINES
    with stub_of(server.target) as stub:
        begun = [stub.NextMoves.future(pb.NextMovesRequest(boards=bytes(16))) for _ in range(calls)]
        assert {call.code() for call in begun} == {grpc.StatusCode.UNAUTHENTICATED}
    assert server.terminate() == 0
    logged = server.log.count("no token:")
    assert logged < calls
    assert left_out(server.log) > calls - logged


def test_a_path_in_a_call_can_neither_fill_the_log_nor_forge_a_field(
    server: ServerProcess, form: str
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port)
    connection.request("GET", '/v2/models/"][code=OK\\n]%0a' + "y" * 3000)
    connection.getresponse().read()
    connection.close()
    path = "/octofold.v1.OctofoldService/NextMoves] [code=OK client=1.2.3.4" + "y" * 3000
    with RawConnection(server.target) as raw:
        raw.begin(path, flags=END_STREAM)
        assert raw.wait_for_ends(1)
    assert server.terminate() == 0
    lines = [line for line in server.log.splitlines() if "UNAUTHENTICATED" in line]
    assert lines
    for line in lines:
        assert len(line) < 1000
        if form == "json":
            assert json.loads(line)["code"] == "UNAUTHENTICATED"
        else:
            outside_of_quotes = re.sub(r'"(\\.|[^"\\])*"', "", line)
            assert "code=OK" not in outside_of_quotes
            assert outside_of_quotes.count("code=") == 1
            assert outside_of_quotes.count("[") == 1


def test_each_log_statement_has_its_own_limit_and_debug_lines_have_none() -> None:
    counts: list[logging.LogRecord] = []
    limit = RepeatLimit(counts.append, max_lines=2, seconds=60)

    def passes(line: int, level: int = logging.WARNING) -> bool:
        return limit.filter(logging.LogRecord("a", level, "file", line, "line %d", (line,), None))

    assert [passes(1) for _ in range(4)] == [True, True, False, False]
    assert [passes(2) for _ in range(2)] == [True, True]
    assert all(passes(1, logging.DEBUG) for _ in range(10))
    assert not counts
    limit.close()
    assert [count.getMessage() for count in counts] == ["similar lines omitted: 2; the last one: line 1"]
    assert limit.filter(counts[0])
    assert "similar lines omitted: 2" in TextLines().format(counts[0])
