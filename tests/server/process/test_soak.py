"""Everything at once for a few seconds: no answer is wrong, every call ends, and nothing is left behind.

The same for minutes or hours is bench/soak.py.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from octofold_server.backends.fakes import fake_moves
from soak_calls import KINDS, SPARE, Target
from soak_loads import (
    MEMORY_IS_RETURNED,
    Load,
    Server,
    Tally,
    Trouble,
    problems,
    quiet_figures,
    settled_figures,
)
from support.servers import Start, WriteVersion

WARM_SECONDS = 5.0
SOAK_SECONDS = 8.0
CALLS = list(KINDS)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_server_that_bore_everything_is_as_it_was_before(
    write_version: WriteVersion,
    start_server: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: int,
) -> None:
    for name, value in MEMORY_IS_RETURNED.items():
        monkeypatch.setenv(name, value)
    write_version("tiny")
    write_version(SPARE)
    rest = ("--rest-port", "0", "--rest-port-file", str(tmp_path / "rest-port"))
    started = start_server("--default-model", "tiny", "--processes", str(processes), *rest)
    boards = np.random.default_rng(7).integers(0, 12, (256, 16), dtype=np.uint8)
    rest_port = int((tmp_path / "rest-port").read_text())
    target = Target(started.target, rest_port, "tiny", boards, fake_moves(boards).moves)
    server = Server(started.process.pid, target, tmp_path / "models")
    troubles = Trouble.common(0.5)
    soak(server, troubles, WARM_SECONDS, seed=1)
    before = quiet_figures(server)
    if processes > 1:
        troubles.append(Trouble.killing(0.5))
    tally = soak(server, troubles, SOAK_SECONDS, seed=2)
    assert problems(tally, before, settled_figures(server, before)) == []
    assert set(tally.begun) == {kind.name for kind in CALLS}
    assert set(tally.done) == {trouble.name for trouble in troubles}
    assert started.terminate() == 0
    assert "seconds of draining" not in started.log
    assert "Traceback" not in started.log


def soak(server: Server, troubles: list[Trouble], seconds: float, seed: int) -> Tally:
    load = Load(server, CALLS, troubles, callers=1, seed=seed)
    load.start()
    time.sleep(seconds)
    load.stop()
    return load.tally
