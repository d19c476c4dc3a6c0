"""Triton's own Python client works with a server process without changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.servers import Start, WriteVersion

PROGRAMS = Path(__file__).with_name("tritonclient_programs.py")


def test_tritonclient_gets_the_right_answers(write_version: WriteVersion, start_server: Start) -> None:
    write_version()
    server = start_server(rest=True)
    command = [sys.executable, str(PROGRAMS), server.target, f"127.0.0.1:{server.rest_port}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert run.returncode == 0, run.stderr
    assert server.terminate() == 0
    assert "Traceback" not in server.log
