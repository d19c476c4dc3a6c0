"""Checks and measures models on a GPU by one command, from a bare checkout.

    python bench/gpu/gpu.py                                # everything, in about 25 minutes
    python bench/gpu/gpu.py --part check --part direct     # some of it
    python bench/gpu/gpu.py --minutes 8                    # begins nothing later, and ends within nine

The parts are listed in `gpu_parts.py`: answers against fp32 on the CPU, boards per second direct and served,
the same with 1 to 16 processes, the latency of a lone board. Each runs in a process of its own, so a
part that fails, or crashes, is a line of the table, and the others go on. The last line is JSON, also after
Ctrl-C, SIGTERM and a part that hangs.

Where there is a GPU and this Python has no onnxruntime for it, the command goes on in .venv-gpu, which
`make setup SERVER=server-gpu` makes; without a package index, PIP_NO_INDEX=1 and PIP_FIND_LINKS=DIR name a
folder of wheels. Where there is no GPU, a CPU is measured, and the report says what is missing. Of this
file's own imports none needs to be installed.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("proto", "game", "players", "server", "client", "export", "training", "bench")
ENVIRONMENT = ROOT / ".venv-gpu"


def main() -> int:
    """Run the benchmark, here or in the environment for GPUs; returns the exit code."""
    use_this_checkout()
    if has_driver() and not has_gpu_build():
        return go_on_elsewhere()
    try:
        import gpu_parts
    except ModuleNotFoundError as error:
        how = "make setup && .venv/bin/python bench/gpu/gpu.py"
        print(f"bench/gpu/gpu.py: {error.name} is missing; run: {how}", file=sys.stderr)
        return 1
    return gpu_parts.main()


def use_this_checkout() -> None:
    """Let this process, and those that it starts, import the packages beside this file."""
    folders = [str(ROOT / package / ".") for package in PACKAGES]
    sys.path[:0] = folders
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(folders + ([inherited] if inherited else []))


def has_driver() -> bool:
    """Return whether NVIDIA's driver is installed."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def has_gpu_build() -> bool:
    """Whether this Python has the onnxruntime for GPUs, and what else the server and the client import."""
    try:
        import aiohttp  # noqa: F401
        import grpc  # noqa: F401
        import msgspec  # noqa: F401
        import onnxruntime
        import rich  # noqa: F401
    except ImportError:
        return False
    return "CUDAExecutionProvider" in onnxruntime.get_available_providers()


def go_on_elsewhere() -> int:
    """Make the environment for GPUs if need be, and run there; returns only if that fails."""
    command = ["make", "setup", "SERVER=server-gpu", f"PYTHON={sys.executable}"]
    if Path(sys.prefix) != ENVIRONMENT and subprocess.run(command, cwd=ROOT).returncode == 0:
        python = str(ENVIRONMENT / "bin" / "python")
        os.execv(python, [python, *sys.argv])
    lacking = "this needs the packages of octofold[server-gpu], and make setup could not install them"
    print(f"bench/gpu/gpu.py: {lacking}; run by hand: {' '.join(command)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
