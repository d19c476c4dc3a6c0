"""Flags that only a GPU obeys are refused where models run on a CPU."""

from __future__ import annotations

from octofold_server.backends.cuda import THIS_MACHINE, Machine, why_no_cuda
from octofold_server.config.options import Config, flag_of
from octofold_server.system.sockets import StartupError

__all__ = ["check_device"]

_FOR_A_GPU = ("tensorrt", "tf32")


def check_device(config: Config, machine: Machine = THIS_MACHINE) -> None:
    """Refuse what cannot have an effect here.

    Raises:
        StartupError: a flag needs a GPU, and models run on the CPU; says why they do.
    """
    wanted = [flag_of(name) for name in _FOR_A_GPU if getattr(config, name)]
    if not wanted:
        return
    flags = f"{' and '.join(wanted)} needs a GPU"
    if config.device == "cpu":
        raise StartupError(f"{flags}, and --device is cpu")
    if why := why_no_cuda(machine):
        raise StartupError(f"{flags}; no CUDA: {why}")
