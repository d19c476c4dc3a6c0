"""Several processes on one port: no stop, start or signal of one of them is seen from outside."""

from __future__ import annotations

import pytest
from octofold_server.system.sockets import StartupError, hold_port, listener_on
from support.servers import Start, WriteVersion
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
