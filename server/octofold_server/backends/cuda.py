"""Whether models can run on a GPU here and, if not, why: what the machine or the installation lacks.

onnxruntime loads CUDA when a session first asks for it. Where it cannot, it goes on with the CPU and says so
on standard error only, in two long lines. So we look before the first session.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import onnxruntime
from octofold_game.commands.extras import install_command

from octofold_server.system.shared_libraries import missing_library

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
