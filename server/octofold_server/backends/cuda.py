"""Checks whether models can run on a GPU of this machine, and finds out why not.

onnxruntime loads CUDA when a session first needs it. If that fails, onnxruntime continues on the CPU, and
gives the reason only in two long lines on standard error. Therefore this module first tries a small session.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnxruntime
from octofold_game.errors import first_line

from octofold_server.system.native_log import STANDARD_ERROR

CUDA = "CUDAExecutionProvider"
REQUIREMENTS = "https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html#requirements"

IDENTITY = (
    b'\x08\x08\x12\x00:7\n\x10\n\x01x\x12\x01y"\x08Identity\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04\n\x02'
    b"\x08\x01b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\x11"
)
"""The bytes of an ONNX model that computes y = x for one float. They are a constant, because the server does
not depend on the package onnx, which could write them."""


def why_no_cuda() -> str | None:
    """Return in one line why models cannot run on a GPU; None if they can."""
    if not has_gpu_build():
        return "this onnxruntime is built for CPUs; `make serve SERVER=server-gpu` uses the build for GPUs"
    return why_unusable(CUDA)


def has_gpu_build() -> bool:
    """Return whether onnxruntime was built with CUDA."""
    return CUDA in onnxruntime.get_available_providers()


def why_unusable(provider: str) -> str | None:
    """Try an execution provider; return in one line why a session cannot use it, or None if it can."""
    preload()
    with tempfile.TemporaryFile() as file:
        try:
            with _standard_error_in(file.fileno()):
                session = onnxruntime.InferenceSession(
                    IDENTITY, onnxruntime.SessionOptions(), providers=[provider], enable_fallback=0
                )
            if provider in session.get_providers():
                return None
            file.seek(0)
            why = reason_in(file.read().decode(errors="replace"))
        except Exception as error:  # onnxruntime's exceptions have only this base class
            why = first_line(error)
    return f"onnxruntime cannot start {provider}: {why} (see {REQUIREMENTS})"


@contextlib.contextmanager
def _standard_error_in(file: int) -> Iterator[None]:
    """Redirect the standard error of native code, where onnxruntime reports failures, to a file."""
    kept = os.dup(STANDARD_ERROR)
    os.dup2(file, STANDARD_ERROR)
    try:
        yield
    finally:
        os.dup2(kept, STANDARD_ERROR)
        os.close(kept)


def reason_in(output: str) -> str:
    """Return the reason in onnxruntime's output, such as the name of a missing library."""
    first = output.strip().partition("\n")[0]
    return first.rpartition(" with error: ")[2].strip() or "onnxruntime gives no reason"


@functools.cache
def preload() -> None:
    """Load CUDA and cuDNN from the wheels beside onnxruntime, before a session needs them.

    The dynamic loader does not search the folders of these wheels. onnxruntime prints the names of missing
    libraries; this output is discarded, because `why_no_cuda` reports the problem if the user needs a GPU.
    """
    load = getattr(onnxruntime, "preload_dlls", None)
    if load is not None and has_gpu_build():
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            load()
