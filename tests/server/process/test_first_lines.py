"""What a person reads who starts and stops the server, or starts it in a wrong way."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from support.servers import NEW_INTERPRETER, Start, WriteVersion
from support.waiting import wait_for


def test_the_first_lines_say_what_is_served_where_and_how_to_stop(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version("one", 1)
    write_version("one", 2)
    write_version("two", 7)
    server = start_server("--default-model", "one", rest=True, program=NEW_INTERPRETER)
    assert server.terminate() == 0
    assert "models: one version 1 (fp32), one version 2 (fp32, default), two version 7 (fp32)" in server.log
    addresses = r"127\.0\.0\.1:\d+ \(gRPC\) and http://127\.0\.0\.1:\d+ \(the page, REST, /metrics\)"
    assert re.search(rf"serving on {addresses}; Ctrl-C or SIGTERM stops the server", server.log)
    assert "max-batch-size" not in server.log
    assert "WARNING" not in server.log


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        ([], "may call, and load and unload models: there is no --tokens file"),
        (["--no-admin"], "may call: there is no --tokens file"),
        (["--tokens", "TOKENS"], None),
    ],
)
def test_a_server_that_listens_beyond_this_machine_warns_that_there_are_no_tokens(
    write_version: WriteVersion,
    start_server: Start,
    tmp_path: Path,
    arguments: list[str],
    warning: str | None,
) -> None:
    write_version()
    (tmp_path / "tokens").write_text("a-token\n")
    arguments = [argument.replace("TOKENS", str(tmp_path / "tokens")) for argument in arguments]
    server = start_server("--host", "0.0.0.0", *arguments)
    assert server.terminate() == 0
    if warning is None:
        assert "WARNING" not in server.log
    else:
        assert re.search(rf"WARNING .*everyone who can reach 0.0.0.0:\d+ {warning}", server.log)


def test_the_first_ctrl_c_says_what_a_second_does_and_the_second_does_it(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--grace", "3600")
    server.process.send_signal(signal.SIGINT)
    wait_for(lambda: "serving for 3600 more seconds" in server.log)
    assert "a second Ctrl-C or SIGTERM ends this wait" in server.log
    server.process.send_signal(signal.SIGINT)
    assert server.wait() == 0
