"""`octofold-train` as a command of its own, in one process or in several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def octofold_train(*arguments: object, folder: Path, processes: int = 1) -> subprocess.Popen[str]:
    """Start the command in `folder`; several processes are `torchrun`'s."""
    program = ["-m", "octofold_training.cli"]
    if processes > 1:
        program = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *program]
    command = [sys.executable, *program, *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process: subprocess.Popen[str]) -> str:
    """What the command printed; it must end well."""
    out, err = process.communicate(timeout=250)
    assert process.returncode == 0, err
    return out
