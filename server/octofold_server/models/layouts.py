"""Chooses how a model uses the device: by the flags, or by default."""

from __future__ import annotations

import logging

from octofold_game.system.processors import usable_cores
from octofold_proto.errors import ModelError

from octofold_server.backends.backend import Backend, Layout
from octofold_server.backends.cuda import has_gpu_build, why_no_cuda
from octofold_server.config.options import Config

_log = logging.getLogger(__name__)

CPU_BATCH_SIZE = 256
CUDA_BATCH_SIZE = 1024

SEARCH_BATCH_SIZE = 1024
"""Maximum batch size of a player. The batcher makes smaller batches if boards take long."""

SEARCH_LANES = 2
"""Number of lanes of a player: while one answers callers, the other searches."""

WORTHWHILE_SECONDS = {8: 0.0025, 16: 0.0025, 32: 0.001, 64: 0.001, 128: 0.001}
"""Minimum seconds of a batch that make its size sufficient, by batch size. The overhead of about 0.1 ms is
then small, and longer batches would make callers wait. Only fast models, and models that vote, run batches
above 32."""

ONE_LANE_BATCH_SIZE = 32


def choose_device(wanted: str) -> str:
    """Return the device for the value of --device: "cpu" or "cuda".

    With "auto" and onnxruntime's GPU build, the user probably expects a GPU: the log gives the reason if it
    cannot be used.

    Raises:
        ModelError: the value is "cuda", but no GPU can be used; the message gives the reason.
    """
    if wanted == "cpu":
        return "cpu"
    why = why_no_cuda()
    if why is None:
        return "cuda"
    if wanted == "cuda":
        raise ModelError(f"no CUDA: {why}")
    if has_gpu_build():
        _log.warning("models run on the CPU, no CUDA: %s", why)
    return "cpu"


def choose_layout(config: Config, device: str, precision: str) -> Layout:
    """Return the layout for a model file of a precision: one lane for each core, or one lane on a GPU.

    The processes share these lanes. The flags count for each process.
    """
    threads = config.threads or 1
    lanes = usable_cores() // threads if device == "cpu" else 1
    return Layout(
        device,
        max_batch_size=config.max_batch_size or (CPU_BATCH_SIZE if device == "cpu" else CUDA_BATCH_SIZE),
        lanes=config.lanes or max(1, lanes // config.processes),
        threads=threads,
        half=precision == "fp16",
    )


def choose_search_layout(config: Config) -> tuple[int, int]:
    """Return the number of lanes of a player, and of the cores that each search may use."""
    cores = config.threads or max(1, usable_cores() // config.processes)
    return config.lanes or SEARCH_LANES, cores


def choose_batch_size(layout: Layout, backend: Backend) -> int:
    """Return the default batch size for a layout on a CPU.

    A single lane needs at least 32: between two of its batches, all other threads run and find their caches
    cold, which costs 1.3 ms. With several lanes, another one runs in that time. Lanes of several threads use
    32, because the CPU time of one thread does not measure their work.

    Args:
        layout: a layout with the largest allowed size.
        backend: one of its lanes.

    Returns:
        8 to 256, or the size of the layout if that is smaller: the smallest size whose batches take long
        enough for their overhead. The size is doubled if the second stage runs less than half of the boards.
    """
    if layout.threads > 1:
        return min(ONE_LANE_BATCH_SIZE, layout.max_batch_size)
    for size, seconds in WORTHWHILE_SECONDS.items():
        if size >= layout.max_batch_size:
            break
        if (layout.lanes > 1 or size >= ONE_LANE_BATCH_SIZE) and backend.batch_seconds(size) >= seconds:
            return min(size << backend.in_stages, layout.max_batch_size)
    return layout.max_batch_size
