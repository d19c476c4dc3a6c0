"""Several processes on one port: no stop, start or signal of one of them is seen from outside."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from octofold_server.system.sockets import StartupError, hold_port, listener_on
from support.processes import members, metric
from support.servers import Ask, Gate, Start, WriteVersion
from support.waiting import wait_for

HANGUP_WHILE_IMPORTING = """
import os, signal, sys

class Hangup:
    def find_spec(self, name, *_):
        if name == "octofold_server.config.reading":
            os.kill(os.getpid(), signal.SIGHUP)

sys.meta_path.insert(0, Hangup())
import octofold_server.cli
sys.exit(octofold_server.cli.main())
"""


def test_a_process_that_stays_stopped_is_replaced(write_version: WriteVersion, start_server: Start) -> None:
    write_version()
    server = start_server("--processes", "2")
    members(server)[0].suspend()
    wait_for(lambda: server.log.count("serving on 127.0.0.1") == 3)
    assert "was stopped for 5 seconds; killing it" in server.log
    assert server.terminate() == 0


def test_two_servers_cannot_hold_the_same_port_even_before_their_processes_listen() -> None:
    with hold_port("127.0.0.1", 0) as port:
        with pytest.raises(StartupError, match="in use"), hold_port("127.0.0.1", port):
            pass
        with listener_on("127.0.0.1", port, shared=True), listener_on("127.0.0.1", port, shared=True):
            pass


def test_sighup_while_the_program_is_still_imported_does_not_end_it(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server(program=("-c", HANGUP_WHILE_IMPORTING))
    wait_for(lambda: "reloading the models: asked to" in server.log)
    assert server.terminate() == 0


def test_metrics_say_ready_while_one_process_is_started_again_as_readyz_does(
    write_version: WriteVersion, start_server: Start, tmp_path: Path, gate: Gate, ask: Ask
) -> None:
    held = write_version()
    rest_port = tmp_path / "rest-port"
    options = ("--processes", "2", "--rest-port", "0", "--rest-port-file", str(rest_port))
    server = start_server(*options, program=gate.program)
    server.rest_port = int(rest_port.read_text())
    gate.hold(held)
    members(server)[0].kill()
    gate.wait_until_reached(held)
    assert metric(ask(server, "GET", "/metrics").body.decode(), "octofold_ready") == 1
    assert ask(server, "GET", "/readyz").status == 200
    gate.release(held)
    server.process.send_signal(signal.SIGTERM)
    assert server.wait() == 0
