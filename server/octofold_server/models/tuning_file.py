"""The file with the results of `octofold-serve --tune`, beside the measured model.

A file may contain results of several machines, by the name of the CPU or GPU and the digest of the model
file.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from octofold_game.contract.model import TUNING_FILE
from octofold_game.system.files import read_regular, whole_file
from octofold_game.system.processors import cpu_name, usable_cores

from octofold_server.backends.backend import Layout
from octofold_server.backends.cuda import gpu_name

MAX_BYTES = 1 << 20

_Count = Annotated[int, msgspec.Meta(ge=1, le=65_536)]

_log = logging.getLogger(__name__)


class _Tuning(msgspec.Struct, frozen=True):
    max_batch_size: _Count
    lanes: _Count
    threads: _Count
    spinning: bool
    boards_per_second: float


class _Tunings(msgspec.Struct, frozen=True):
    format: Literal[1]
    devices: dict[str, dict[str, _Tuning]]
    "by the device's name, then by the SHA-256 of the model file"


def device_name(device: str) -> str:
    """The key of results for "cpu" or "cuda"; on a CPU, it includes the number of cores."""
    if device == "cuda":
        return gpu_name()
    cores = usable_cores()
    return f"{cpu_name()}, {cores} core{'s' * (cores > 1)}"


def read_tuning(folder: Path, device: str, sha256: str) -> Layout | None:
    """The result for a model file on this device; None without one.

    A file that is damaged, or has another format is ignored and logged.

    Args:
        folder: the folder of the version.
        device: "cpu" or "cuda".
        sha256: the digest of the model file.
    """
    results = _read(folder / TUNING_FILE).devices.get(device_name(device), {})
    found = results.get(sha256)
    if found is None:
        return None
    return Layout(device, found.max_batch_size, found.lanes, found.threads, found.spinning)


def write_tuning(folder: Path, sha256: str, layout: Layout, boards_per_second: float) -> None:
    """Store a result beside those for other devices and model files.

    Raises:
        OSError: the file cannot be written.
    """
    file = folder / TUNING_FILE
    devices = _read(file).devices
    result = _Tuning(
        layout.max_batch_size, layout.lanes, layout.threads, layout.spinning, round(boards_per_second, 1)
    )
    devices.setdefault(device_name(layout.device), {})[sha256] = result
    with whole_file(file) as partial:
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(_Tunings(1, devices))) + b"\n")


def _read(file: Path) -> _Tunings:
    nothing = _Tunings(1, {})
    try:
        return msgspec.json.decode(read_regular(file, MAX_BYTES), type=_Tunings)
    except FileNotFoundError:
        return nothing
    except (OSError, ValueError) as error:
        _log.warning("ignoring %s: %s", file, error)
        return nothing
