"""Chooses how a model uses the device: what the flags say, else what was measured here, else good defaults.

Knows the flags and the defaults, not how anything is measured or run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from octofold_proto.errors import ModelError

from octofold_server.backends.backend import Layout
from octofold_server.backends.cuda import THIS_MACHINE, Machine, has_gpu_build, why_no_cuda
from octofold_server.config.options import Config
from octofold_server.system.cpus import usable_cores

__all__ = ["choose_batch_size", "choose_device", "choose_layout", "default_layout"]

_log = logging.getLogger(__name__)

CPU_BATCH_SIZE = 32
CUDA_BATCH_SIZE = 1024

SMALLER_CPU_BATCH_SIZES = (8, 16)

WORTHWHILE_SECONDS = 0.0025
"""What a batch costs besides its run, some 0.1 ms, is little beside this; a longer one makes callers wait."""


def choose_device(wanted: str, machine: Machine = THIS_MACHINE) -> str:
    """The device for what --device says: "cpu" or "cuda".

    Where it says "auto" and onnxruntime is the one for GPUs, somebody expects a GPU: the log says what is in
    the way.

    Raises:
        ModelError: it says "cuda", and that cannot be used; the message says why.
    """
    if wanted == "cpu":
        return "cpu"
    why = why_no_cuda(machine)
    if why is None:
        return "cuda"
    if wanted == "cuda":
        raise ModelError(f"no CUDA: {why}")
    if has_gpu_build(machine):
        _log.warning("models run on the CPU, no CUDA: %s", why)
    return "cpu"


def choose_layout(config: Config, device: str, precision: str, measured: Layout | None = None) -> Layout:
    """The layout for a model file of that precision; `measured` is what `--tune` found best, if it was asked.

    TensorRT is for fp16 alone: it is told that it may round to float16.
    """
    layout = measured or default_layout(device)
    threads = config.threads or layout.threads
    lanes = config.lanes or layout.lanes
    if config.threads and not config.lanes and device == "cpu":
        lanes = max(1, usable_cores() // threads)
    by_tensorrt = config.tensorrt is not None and device == "cuda" and precision == "fp16"
    return replace(
        layout,
        lanes=lanes,
        threads=threads,
        max_batch_size=config.max_batch_size or layout.max_batch_size,
        spinning=config.spinning or layout.spinning,
        tf32=config.tf32,
        half=precision == "fp16",
        cuda_graphs=config.cuda_graphs,
        engines=config.tensorrt if by_tensorrt else None,
    )


def default_layout(device: str) -> Layout:
    """A lane of one thread for each core, or one lane on a GPU."""
    if device == "cuda":
        return Layout(device, CUDA_BATCH_SIZE, lanes=1)
    return Layout(device, CPU_BATCH_SIZE, lanes=usable_cores())


def choose_batch_size(layout: Layout, batch_seconds: Callable[[int], float]) -> int:
    """The batch size for a layout on a CPU of which nobody has said or measured what is best.

    One lane alone has the largest: between two of its batches all other threads have their turn, and find
    their caches cold, which costs 1.3 ms. Of several lanes, another runs meanwhile. So have lanes of several
    threads, whose work the time of one does not tell.

    Args:
        layout: with the largest size in question.
        batch_seconds: see `Backend.batch_seconds`.

    Returns:
        8, 16, or the layout's own: the smallest whose batch takes long enough to be worth its overhead.
    """
    if layout.lanes == 1 or layout.threads > 1:
        return layout.max_batch_size
    for size in SMALLER_CPU_BATCH_SIZES:
        if size < layout.max_batch_size and batch_seconds(size) >= WORTHWHILE_SECONDS:
            return size
    return layout.max_batch_size
