"""Checks and measures models on a GPU with one command, from a bare checkout.

    python bench/gpu/gpu.py                                # everything, in about 25 minutes
    python bench/gpu/gpu.py --part check --part direct     # two kinds of parts
    python bench/gpu/gpu.py --minutes 8                    # starts no part after 8 minutes, ends within 9

`gpu_parts.py` lists the parts: answers compared with fp32 on the CPU, boards per second direct and served,
and the latency of a single board. Each part runs in its own process. A part that
fails or crashes becomes a line of the table, and the other parts continue. The last line is JSON, also after
Ctrl-C, SIGTERM or a part that hangs.

If there is a GPU but this Python has no onnxruntime for it, the command continues in .venv-gpu, which
`make setup SERVER=server-gpu` makes. Without a package index, set PIP_NO_INDEX=1 and PIP_FIND_LINKS=DIR with
a folder of wheels. Without a GPU, the command measures the CPU, and the report says what is missing. This
file imports only the standard library at its top level.
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
    """Run the benchmark in this environment or in the one for GPUs, and return the exit code."""
    use_this_checkout()
    if has_driver() and not has_gpu_build():
        return run_in_gpu_environment()
    try:
        import gpu_parts
    except ModuleNotFoundError as error:
        how = "make setup && .venv/bin/python bench/gpu/gpu.py"
        print(f"bench/gpu/gpu.py: {error.name} is missing; run: {how}", file=sys.stderr)
        return 1
    return gpu_parts.main()


def use_this_checkout() -> None:
    """Let this process and its children import the packages of this checkout."""
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
    """Return whether this Python has onnxruntime for GPUs and the other imports of server and client."""
    try:
        import aiohttp  # noqa: F401
        import grpc  # noqa: F401
        import msgspec  # noqa: F401
        import onnxruntime
        import rich  # noqa: F401
    except ImportError:
        return False
    return "CUDAExecutionProvider" in onnxruntime.get_available_providers()


def run_in_gpu_environment() -> int:
    """Make the environment for GPUs if it is missing, and run there. Returns only if that fails."""
    command = ["make", "setup", "SERVER=server-gpu", f"PYTHON={sys.executable}"]
    if Path(sys.prefix) != ENVIRONMENT and subprocess.run(command, cwd=ROOT).returncode == 0:
        python = str(ENVIRONMENT / "bin" / "python")
        os.execv(python, [python, *sys.argv])
    failure = "make setup could not install the packages of octofold[server-gpu]"
    print(f"bench/gpu/gpu.py: {failure}; run it by hand: {' '.join(command)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
