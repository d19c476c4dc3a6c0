"""Chooses the layout of a model: device, precision, batch size, lanes and threads, by flags or by default."""

from __future__ import annotations

import logging
from pathlib import Path

from octofold_game.contract.model import Card, Precision
from octofold_game.system.processors import usable_cores
from octofold_proto.errors import ModelError

from octofold_server.backends.backend import Backend, Layout
from octofold_server.backends.cuda import has_gpu_build, why_no_cuda
from octofold_server.config.options import Config

_log = logging.getLogger(__name__)

CPU_BATCH_SIZE = 256
CUDA_BATCH_SIZE = 1024

SEARCH_BATCH_SIZE = 1024
"""Maximum batch size of a player. The batcher makes smaller batches if the search takes long."""

SEARCH_LANES = 2
"""Number of lanes of a player. While one lane sends answers, the other searches."""

WORTHWHILE_SECONDS = {8: 0.0025, 16: 0.0025, 32: 0.001, 64: 0.001, 128: 0.001}
"""For each batch size, the CPU seconds that a batch must take for this size to be chosen. The overhead of a
batch, about 0.1 ms, is then small, and larger batches would make callers wait longer. Only fast models, and
models that vote, get batches above 32."""

ONE_LANE_BATCH_SIZE = 32
"""Minimum default batch size of a model with a single lane."""


def choose_device(wanted: str) -> str:
    """Return the device for a value of --device: "cpu" or "cuda".

    With "auto" and onnxruntime's GPU build, the user probably expects a GPU. If none can be used, the reason
    is logged.

    Raises:
        ModelError: the value is "cuda", but no GPU can be used; the message gives the reason.
    """
    if wanted == "cpu":
        return "cpu"
    why = why_no_cuda()
    if why is None:
        return "cuda"
    if wanted == "cuda":
        raise ModelError(f"CUDA cannot be used: {why}")
    if has_gpu_build():
        _log.warning("models run on the CPU, because CUDA cannot be used: %s", why)
    return "cpu"


def choose_precision(card: Card, wanted: str, *, device: str, avx2: bool) -> Precision:
    """Return the precision to serve: `wanted`, or for "auto" the device's fastest precision in the card.

    Raises:
        ModelError: the card does not list the precision.
    """
    if wanted == "auto":
        fastest = "fp16" if device == "cuda" else "int8" if avx2 else "fp32"
        wanted = fastest if fastest in card.precisions else "fp32"
    for precision in card.precisions:
        if precision == wanted:
            return precision
    raise ModelError(
        f"--precision must be one that the card lists ({', '.join(card.precisions)}), got {wanted}"
    )


def cpu_has_avx2() -> bool:
    """Return whether the CPU has AVX2, according to Linux's cpuinfo. With AVX2, int8 is faster than fp32.

    Without VNNI, onnxruntime adds two products in 16 bits, and the sum can saturate. If int8 hardly changes
    the moves of a network, saturation hardly changes them, either (`bench/graph/moves_alone.py --exact`).
    """
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    flags = next((line.split() for line in text.splitlines() if line.startswith("flags")), [])
    return "avx2" in flags


def choose_layout(config: Config, device: str, precision: str) -> Layout:
    """Return the layout of a graph with a precision on a device.

    By default, a process has one lane on a GPU. On a CPU, the cores are divided among the processes, and each
    process has a lane for every core, or for every --threads cores. The flags apply to each process.
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
    """Return the number of lanes of a player, and the number of cores that each search may use."""
    cores = config.threads or max(1, usable_cores() // config.processes)
    return config.lanes or SEARCH_LANES, cores


def choose_batch_size(layout: Layout, backend: Backend) -> int:
    """Return the default batch size for a layout on a CPU.

    A single lane needs batches of at least 32 boards: between two batches, all other threads run with cold
    caches, which costs 1.3 ms. If there are several lanes, another lane runs in that time. Lanes of several
    threads use 32, because `batch_seconds` measures only one thread.

    Args:
        layout: a layout with the largest allowed batch size.
        backend: a lane of the model with that layout.

    Returns:
        The smallest size from 8 to 128 whose batches take `WORTHWHILE_SECONDS` or more, doubled for a backend
        with two stages; at most the layout's batch size, which is also the result if no batch takes so long.
    """
    if layout.threads > 1:
        return min(ONE_LANE_BATCH_SIZE, layout.max_batch_size)
    for size, seconds in WORTHWHILE_SECONDS.items():
        if size >= layout.max_batch_size:
            break
        if (layout.lanes > 1 or size >= ONE_LANE_BATCH_SIZE) and backend.batch_seconds(size) >= seconds:
            return min(size << backend.in_stages, layout.max_batch_size)
    return layout.max_batch_size
