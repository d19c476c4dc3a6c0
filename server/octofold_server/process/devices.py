"""Refuses flags that need a GPU if models run on a CPU."""

from __future__ import annotations

from octofold_server.backends.cuda import THIS_MACHINE, Machine, why_no_cuda
from octofold_server.config.options import Config, flag_of
from octofold_server.system.sockets import StartupError

_FOR_A_GPU = ("tensorrt", "tf32")


def check_device(config: Config, machine: Machine = THIS_MACHINE) -> None:
    """Check the flags that need a GPU.

    Raises:
        StartupError: a flag needs a GPU, but models run on the CPU; the message gives the reason.
    """
    wanted = [flag_of(name) for name in _FOR_A_GPU if getattr(config, name)]
    if not wanted:
        return
    flags = f"{' and '.join(wanted)} {'needs' if len(wanted) == 1 else 'need'} a GPU"
    if config.device == "cpu":
        raise StartupError(f"{flags}, and --device is cpu")
    if why := why_no_cuda(machine):
        raise StartupError(f"{flags}; no CUDA: {why}")
