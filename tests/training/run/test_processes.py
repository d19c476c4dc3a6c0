"""Joining the processes of a run, and leaving them."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from octofold_training.run.processes import Processes
from support.training import finished, started

JOIN_AND_LEAVE = r"""
import importlib
import sys
from pathlib import Path
import torch
from octofold_training.run.processes import joined_processes

def communicating():
    names = {thread.read_text() for thread in Path("/proc/self/task").glob("*/comm")}
    return any("gloo" in name for name in names)

with joined_processes(torch.device("cpu")) as processes:
    importlib.import_module("torch.distributed.nn")  # as the first optimizer does
    processes.add_up(torch.ones(1))
    joined = communicating()
# In one piece: unbuffered, `print` writes the end of the line apart, and the line of the other comes between.
sys.stdout.write(f"process {processes.rank}: {joined}, then {communicating()}\n")
"""


@pytest.mark.long  # torchrun and its processes each import torch
@pytest.mark.skipif(sys.platform != "linux", reason="threads are listed in /proc")
def test_a_process_that_has_left_the_group_has_no_threads_of_it(tmp_path: Path) -> None:
    (tmp_path / "join_and_leave.py").write_text(JOIN_AND_LEAVE)
    said = finished(started("join_and_leave.py", folder=tmp_path, processes=2))
    assert sorted(said.splitlines()) == ["process 0: True, then False", "process 1: True, then False"]


def test_ctrl_c_is_answered_at_once_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    for rank in (1, 0):
        processes = Processes(rank, 2)
        for _ in range(2):  # from the terminal and from torchrun
            processes.note_interrupt(signal.SIGINT, None)
        assert processes.interrupted
    assert capsys.readouterr().err == "stopping after the next report\n"
