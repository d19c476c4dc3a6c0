"""Chooses how a model uses the device: by the flags, by a measurement on this machine, or by default."""

from __future__ import annotations

import logging
from dataclasses import replace

from octofold_game.system.processors import usable_cores
from octofold_proto.errors import ModelError

from octofold_server.backends.backend import Backend, Layout
from octofold_server.backends.cuda import THIS_MACHINE, Machine, has_gpu_build, why_no_cuda
from octofold_server.config.options import Config

_log = logging.getLogger(__name__)

CPU_BATCH_SIZE = 256
CUDA_BATCH_SIZE = 1024

SEARCH_BATCH_SIZE = 1024
"""The batcher makes smaller batches of boards that take long."""

ASKING_BOARDS = {"cpu": 16, "cuda": 128}
"""Boards of a batch that searches by a network, even if they take long: they share each question."""

SEARCH_LANES = 2
"""While one lane answers callers, the other searches."""

WORTHWHILE_SECONDS = {8: 0.0025, 16: 0.0025, 32: 0.001, 64: 0.001, 128: 0.001}
"""Batch sizes, and the duration of a batch from which on the size suffices. The overhead of about 0.1 ms is
small beside it, and longer batches make callers wait. Only fast models, and models that vote, run batches
above 32."""

ONE_LANE_BATCH_SIZE = 32


def choose_device(wanted: str, machine: Machine = THIS_MACHINE) -> str:
    """The device for the value of --device: "cpu" or "cuda".

    With "auto" and onnxruntime's GPU build, the user probably expects a GPU: the log gives the reason if it
    cannot be used.

    Raises:
        ModelError: the value is "cuda", but no GPU can be used; the message gives the reason.
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
    """The layout for a model file of a precision; `measured` is the result of `--tune`, if any."""
    layout = measured or default_layout(device)
    lanes, threads = _lanes_and_threads(config, layout)
    return replace(
        layout,
        lanes=lanes,
        threads=threads,
        max_batch_size=config.max_batch_size or layout.max_batch_size,
        half=precision == "fp16",
    )


def _lanes_and_threads(config: Config, layout: Layout) -> tuple[int, int]:
    """The lanes of each process, and the threads of each lane; the processes share those of `layout`.

    Flags count for each process.
    """
    if config.lanes:
        return config.lanes, config.threads or layout.threads
    if config.threads:
        lanes = usable_cores() // config.threads if layout.device == "cpu" else layout.lanes
        return max(1, lanes // config.processes), config.threads
    if config.processes <= layout.lanes:
        return layout.lanes // config.processes, layout.threads
    return 1, max(1, layout.lanes * layout.threads // config.processes)


def choose_search_layout(config: Config) -> tuple[int, int]:
    """The lanes of a player, and the cores that each lane's search may use: all, for a lone board."""
    cores = config.threads or max(1, usable_cores() // config.processes)
    return config.lanes or SEARCH_LANES, cores


def default_layout(device: str) -> Layout:
    """The default: one lane with one thread for each core, or one lane on a GPU."""
    if device == "cuda":
        return Layout(device, CUDA_BATCH_SIZE, lanes=1)
    return Layout(device, CPU_BATCH_SIZE, lanes=usable_cores())


def choose_batch_size(layout: Layout, backend: Backend) -> int:
    """The default batch size for a layout on a CPU.

    A single lane needs at least 32: between two of its batches, all other threads run and find their caches
    cold, which costs 1.3 ms. With several lanes, another one runs in that time. Lanes of several threads use
    32, because the CPU time of one thread does not measure their work.

    Args:
        layout: a layout with the largest allowed size.
        backend: one of its lanes.

    Returns:
        8 to 256, or the size of the layout if that is smaller: the smallest whose batch takes long enough for
        its overhead; twice that for one whose second run has less than half of the boards.
    """
    if layout.threads > 1:
        return min(ONE_LANE_BATCH_SIZE, layout.max_batch_size)
    for size, seconds in WORTHWHILE_SECONDS.items():
        if size >= layout.max_batch_size:
            break
        if (layout.lanes > 1 or size >= ONE_LANE_BATCH_SIZE) and backend.batch_seconds(size) >= seconds:
            return min(size << backend.in_stages, layout.max_batch_size)
    return layout.max_batch_size
