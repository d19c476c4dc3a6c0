"""Chooses how a model uses the device: what the flags say, else what was measured here, else good defaults.

Knows the flags and the defaults, not how anything is measured or run.
"""

from __future__ import annotations

from dataclasses import replace

from octofold_server.backend import Layout
from octofold_server.config import Config
from octofold_server.cpus import usable_cores

__all__ = ["choose_layout", "default_layout"]

CPU_BATCH_SIZE = 32
CUDA_BATCH_SIZE = 1024


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
        engines=config.tensorrt if by_tensorrt else None,
    )


def default_layout(device: str) -> Layout:
    """A lane of one thread for each core, or one lane on a GPU."""
    if device == "cuda":
        return Layout(device, CUDA_BATCH_SIZE, lanes=1)
    return Layout(device, CPU_BATCH_SIZE, lanes=usable_cores())
