"""Refuses flags that need a GPU if models run on a CPU."""

from __future__ import annotations

from octofold_server.config.options import Config, flag_of
from octofold_server.models.layouts import choose_device
from octofold_server.system.sockets import StartupError

_FOR_A_GPU = ("tensorrt", "tf32")


def check_device(config: Config) -> None:
    """Check the flags that need a GPU.

    Raises:
        StartupError: a flag needs a GPU, but models run on the CPU; the message gives the reason.
        ModelError: --device is cuda, but no GPU can be used.
    """
    wanted = [flag_of(name) for name in _FOR_A_GPU if getattr(config, name)]
    if wanted and choose_device(config.device) == "cpu":
        why = "--device is cpu" if config.device == "cpu" else "onnxruntime finds no GPU on this machine"
        raise StartupError(f"{' and '.join(wanted)} needs a GPU, and {why}")
