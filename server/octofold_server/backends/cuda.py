"""Whether models can run on a GPU here and, if not, why: what the machine or the installation lacks.

onnxruntime loads CUDA when a session first asks for it. Where it cannot, it goes on with the CPU and says so
on standard error only, in two long lines. So we look before the first session.

Which libraries a shared library needs is read from the file, in the format ELF: loading it to find out would
run its code, and a provider of onnxruntime must be loaded by onnxruntime alone. The reader is for 64-bit
little-endian files, as onnxruntime is published for Linux; it takes others for files that need nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import onnxruntime
from octofold_game.commands.extras import install_command
from octofold_game.commands.options import flag_of

from octofold_server.config.options import Config
from octofold_server.system.sockets import StartupError

CUDA = "CUDAExecutionProvider"
DRIVER = "libcuda.so.1"

IDENTITY = (
    b'\x08\x08\x12\x00:7\n\x10\n\x01x\x12\x01y"\x08Identity\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04\n\x02'
    b"\x08\x01b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\x11"
)
"""An ONNX model: y = x, one float. The server does without the package that would write it."""


class Machine(Protocol):
    """What is asked of a machine and its onnxruntime; tests have others than this one."""

    def providers(self) -> Sequence[str]:
        """The execution providers that onnxruntime was built with."""
        ...

    def gpus(self) -> int:
        """How many GPUs the driver finds.

        Raises:
            OSError: the driver is not installed.
        """
        ...

    def cuda_versions(self) -> tuple[str, str]:
        """The CUDA that the driver is for, and the one that onnxruntime was built with; "" if not known."""
        ...

    def missing_library(self, provider: str) -> str | None:
        """Why the libraries of an execution provider cannot be loaded, in one line; None if they can be."""
        ...

    def failure(self, provider: str) -> str | None:
        """Why a session cannot use an execution provider, in one line; None if it can."""
        ...


class ThisMachine:
    """The machine that this runs on."""

    def providers(self) -> Sequence[str]:
        """See `Machine`."""
        found: list[str] = onnxruntime.get_available_providers()
        return found

    def gpus(self) -> int:
        """See `Machine`."""
        driver, count = ctypes.CDLL(DRIVER), ctypes.c_int()
        works = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
        return count.value if works else 0

    def cuda_versions(self) -> tuple[str, str]:
        """See `Machine`."""
        driver, version = ctypes.CDLL(DRIVER), ctypes.c_int()
        built_with: str = getattr(onnxruntime, "cuda_version", "")
        if driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
            return "", built_with
        return f"{version.value // 1000}.{version.value % 1000 // 10}", built_with

    def missing_library(self, provider: str) -> str | None:
        """See `Machine`."""
        preload()
        short = provider.removesuffix("ExecutionProvider").lower()
        file = Path(onnxruntime.__file__).parent / "capi" / f"libonnxruntime_providers_{short}.so"
        try:
            return missing_library(file)
        except OSError:
            return f"the file {file} is missing"

    def failure(self, provider: str) -> str | None:
        """See `Machine`. Tries it."""
        try:
            session = onnxruntime.InferenceSession(
                IDENTITY, onnxruntime.SessionOptions(), providers=[provider], enable_fallback=0
            )
        except Exception as error:  # onnxruntime's exceptions have no other base class
            return f"onnxruntime cannot start it: {str(error).strip().partition(chr(10))[0]}"
        if provider not in session.get_providers():
            return "onnxruntime cannot start it; its own message is on standard error"
        return None


THIS_MACHINE = ThisMachine()


def why_no_cuda(machine: Machine = THIS_MACHINE) -> str | None:
    """Why models cannot run on a GPU, in one line; None if they can."""
    if not has_gpu_build(machine):
        return f"this onnxruntime is built for CPUs; install the other with: {install_command('server-gpu')}"
    try:
        gpus = machine.gpus()
    except OSError:
        return (
            f"the library {DRIVER} is missing, which comes with NVIDIA's driver (docker: run with --gpus all)"
        )
    if not gpus:
        return "the driver finds no GPU"
    driver, built_with = machine.cuda_versions()
    if driver and built_with and _major(driver) < _major(built_with):
        return f"NVIDIA's driver is for CUDA {driver}, and this onnxruntime needs one for CUDA {built_with}"
    return machine.missing_library(CUDA) or machine.failure(CUDA)


def _major(version: str) -> int:
    return int(version.partition(".")[0])


def has_gpu_build(machine: Machine = THIS_MACHINE) -> bool:
    """Whether onnxruntime was built with CUDA."""
    return CUDA in machine.providers()


@functools.cache
def preload() -> None:
    """Load CUDA and cuDNN from the wheels beside onnxruntime, before a session needs them.

    The dynamic loader does not search their folders. onnxruntime prints missing libraries; this output is
    discarded, and `why_no_cuda` reports the problem if the user needs a GPU.
    """
    load = getattr(onnxruntime, "preload_dlls", None)
    if load is not None and has_gpu_build():
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            load()


def gpu_name() -> str:
    """What the driver calls the first GPU; only where there is one."""
    driver, name = ctypes.CDLL(DRIVER), ctypes.create_string_buffer(256)
    driver.cuInit(0)
    driver.cuDeviceGetName(name, len(name), 0)
    return name.value.decode() or "GPU"


_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<qQ")
_ELF_64_LITTLE = b"\x7fELF\x02\x01"
_LOAD, _DYNAMIC = 1, 2
"""Types of a segment."""
_END, _NEEDED, _STRINGS, _STRINGS_SIZE = 0, 1, 5, 10
"""Types of an entry of the dynamic segment."""


def missing_library(file: Path, load: Callable[[str], object] = ctypes.CDLL) -> str | None:
    """Why the first library that `file` needs cannot be loaded, in one line; None if all can be.

    Args:
        file: a shared library.
        load: loads a library by its name; raises OSError if it cannot.
    """
    for name in needed_libraries(file):
        try:
            load(name)
        except OSError as error:
            library, what, _ = str(error).partition(": cannot open shared object file")
            return f"the library {library} is missing" if what else f"the library {name} fails: {error}"
    return None


def needed_libraries(file: Path) -> list[str]:
    """The names of the libraries that a shared library is linked with, in their order.

    Raises:
        OSError: the file cannot be read.
    """
    with file.open("rb") as opened:
        try:
            return _needed(opened)
        except struct.error:  # the file is cut off
            return []


def _needed(file: BinaryIO) -> list[str]:
    header = file.read(_HEADER.size)
    if not header.startswith(_ELF_64_LITTLE):
        return []
    _, _, _, _, _, at, _, _, _, _, count, _, _, _ = _HEADER.unpack(header)
    file.seek(at)
    segments = [_SEGMENT.unpack(file.read(_SEGMENT.size)) for _ in range(count)]
    loaded = [(address, size, offset) for kind, _, offset, address, _, size, *_ in segments if kind == _LOAD]
    dynamic = next(((offset, size) for kind, _, offset, _, _, size, *_ in segments if kind == _DYNAMIC), None)
    if dynamic is None:
        return []
    file.seek(dynamic[0])
    entries = list(_entries(file.read(dynamic[1])))
    found = dict(entries)
    address = found[_STRINGS]
    start = next(
        offset + address - first for first, size, offset in loaded if first <= address < first + size
    )
    file.seek(start)
    strings = file.read(found[_STRINGS_SIZE])
    return [strings[at : strings.index(b"\0", at)].decode() for kind, at in entries if kind == _NEEDED]


def _entries(segment: bytes) -> Iterator[tuple[int, int]]:
    for kind, value in _ENTRY.iter_unpack(segment[: len(segment) // _ENTRY.size * _ENTRY.size]):
        if kind == _END:
            return
        yield kind, value


_FOR_A_GPU = ("tensorrt", "tf32")


def check_device(config: Config) -> None:
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
    if why := why_no_cuda():
        raise StartupError(f"{flags}; no CUDA: {why}")
