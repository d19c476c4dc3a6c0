"""`octofold-train` and other programs that train, in one process or in several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def octofold_train(*arguments: object, folder: Path, processes: int = 1) -> subprocess.Popen[str]:
    """Start the command in `folder`; several processes are `torchrun`'s."""
    return started("-m", "octofold_training.cli", *arguments, folder=folder, processes=processes)


def started(*program: object, folder: Path, processes: int) -> subprocess.Popen[str]:
    """Start a Python program in `folder`; several processes are `torchrun`'s."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [sys.executable, *(torchrun if processes > 1 else []), *map(str, program)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process: subprocess.Popen[str]) -> str:
    """What the command printed; it must end well."""
    out, err = process.communicate(timeout=250)
    assert process.returncode == 0, err
    return out
