"""Flags that only a GPU obeys are refused where models run on a CPU."""

from __future__ import annotations

from octofold_server.config.options import Config, flag_of
from octofold_server.models.layouts import choose_device
from octofold_server.system.sockets import StartupError

__all__ = ["check_device"]

_FOR_A_GPU = ("tensorrt", "tf32")


def check_device(config: Config) -> None:
    """Refuse what cannot have an effect here.

    Raises:
        StartupError: a flag needs a GPU, and models run on the CPU; says why they do.
        ModelError: see `choose_device`.
    """
    wanted = [flag_of(name) for name in _FOR_A_GPU if getattr(config, name)]
    if wanted and choose_device(config.device) == "cpu":
        why = "--device is cpu" if config.device == "cpu" else "onnxruntime finds no GPU on this machine"
        raise StartupError(f"{' and '.join(wanted)} needs a GPU, and {why}")
