"""`octofold-serve --tune`: finds the lanes, threads and batch size that answer most boards per second.

All candidates take turns in rounds, so that a slow moment affects all of them, and are compared by the
medians of their rounds. It measures the backend in a loop, without gRPC.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import TUNING_FILE
from octofold_game.episodes import Episodes
from octofold_game.rules import legal_moves
from octofold_game.system.processors import usable_cores
from octofold_proto.errors import ModelError

from octofold_server.backends.backend import Backend, BackendError, BackendFactory, Layout
from octofold_server.backends.onnx_value import network_lanes
from octofold_server.config.options import Config
from octofold_server.models.layouts import choose_device, choose_layout
from octofold_server.models.repository import (
    VersionFolder,
    choose_precision,
    cpu_has_avx2,
    find_versions,
    read_card,
    read_model,
    read_tensors,
)
from octofold_server.models.tuning_file import device_name, write_tuning
from octofold_server.models.version_index import why_nothing_is_served

SECONDS = 60.0
"""Duration of the measurement for one model, without loading."""

ROUNDS = 3
NEAR = 0.97
"""Share of the best speed that counts as equal; among equal candidates, the simplest wins."""

CPU_BATCHES = (8, 16, 32, 64, 128, 256)
CUDA_BATCHES = (64, 256, 1024, 4096)

_log = logging.getLogger(__name__)


def tune(
    config: Config,
    new_backends: BackendFactory = network_lanes,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Measure the newest version of every model that `config` would serve, and store the best beside it.

    Lanes, threads and batch sizes that flags define are not varied. `clock` tells the time in seconds.

    Raises:
        ModelError: no model exists, or one cannot be measured; earlier results stay.
    """
    device = choose_device(config.device)
    config = replace(config, processes=1)  # several share what is the best for the machine
    newest = {}
    for folder in find_versions(config.models):  # sorted by version
        if config.versions.of(folder.name).allows(folder.version):
            newest[folder.name] = folder
    if not newest:
        raise ModelError(why_nothing_is_served(config.models, ()))
    for folder in newest.values():
        try:
            _tune(folder, config, device, new_backends, seconds, clock)
        except (BackendError, ModelError, OSError) as error:
            raise ModelError(f"{folder.name}/{folder.version}: {error}") from error


def _tune(
    folder: VersionFolder,
    config: Config,
    device: str,
    new_backends: BackendFactory,
    seconds: float,
    clock: Callable[[], float],
) -> None:
    card, _ = read_card(folder)
    if card.player is not None:
        _log.info("%s/%d is a player, which needs no measurement", folder.name, folder.version)
        return
    precision = choose_precision(card, config.precision, device=device, avx2=cpu_has_avx2())
    file = card.precisions[precision]
    model, tensors = read_model(folder.path, file), read_tensors(folder.path, file)
    name = f"{folder.name}/{folder.version}"
    _log.info("%s: measuring %s on %s", name, precision, device_name(device))

    layouts = list(
        dict.fromkeys(choose_layout(config, device, precision, layout) for layout in candidates(device))
    )
    largest = max(layout.max_batch_size for layout in layouts)
    # Smaller batches run on the lanes for the largest.
    runs_on = {layout: replace(layout, max_batch_size=largest) for layout in layouts}
    lanes = {layout: new_backends(model, layout, tensors, None) for layout in set(runs_on.values())}
    for backends in lanes.values():
        for backend in backends:
            backend.warm_up()
    boards = random_boards(largest)
    measured: dict[Layout, list[float]] = {layout: [] for layout in layouts}
    for _ in range(ROUNDS):
        for layout, speeds in measured.items():
            backends = lanes[runs_on[layout]]
            some = boards[: layout.max_batch_size]
            speeds.append(boards_per_second(backends, some, seconds / ROUNDS / len(layouts), clock))

    medians = {layout: statistics.median(speeds) for layout, speeds in measured.items()}
    for layout, speed in medians.items():
        _log.info("%s: %9s boards/s: %s", name, f"{speed:,.0f}", _described(layout))
    fastest = max(medians.values())
    best = next(layout for layout, speed in medians.items() if speed >= NEAR * fastest)
    write_tuning(folder.path, file.sha256, best, medians[best])
    _log.info("%s: kept in %s: %s", name, folder.path / TUNING_FILE, _described(best))


def candidates(device: str) -> Iterator[Layout]:
    """The candidates, the simplest first."""
    if device == "cuda":
        for lanes in (1, 2):
            for batch in CUDA_BATCHES:
                yield Layout(device, batch, lanes)
        return
    cores = usable_cores()
    for threads in sorted({1, min(2, cores), cores}):
        for spinning in (False, True) if threads > 1 else (False,):
            for batch in CPU_BATCHES:
                yield Layout(device, batch, cores // threads, threads, spinning)


def boards_per_second(
    lanes: Sequence[Backend],
    boards: NDArray[np.uint8],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Boards per second of all lanes together, each of which runs `boards` [N, 16] repeatedly.

    Raises:
        BackendError: a lane failed.
    """
    begin = clock()

    def run(lane: Backend) -> int:
        batches = 0
        while clock() < begin + seconds:
            lane.run(boards)
            batches += 1
        return batches

    with ThreadPoolExecutor(len(lanes)) as pool:
        batches = sum(pool.map(run, lanes))
    return batches * len(boards) / (clock() - begin)


def random_boards(count: int) -> NDArray[np.uint8]:
    """Boards of games with random legal moves, `[count, 16]`."""
    generator = np.random.default_rng(0)
    episodes = Episodes(0, range(64))
    seen: list[NDArray[np.uint8]] = []
    while sum(map(len, seen)) < count:
        seen.append(episodes.boards.copy())
        preferences = legal_moves(episodes.boards) * generator.random((len(episodes.boards), 4))
        episodes.step(preferences.argmax(axis=1).astype(np.int8))
        if not len(episodes.running):
            episodes = Episodes(1, range(64))
    return np.concatenate(seen)[:count]


def _described(layout: Layout) -> str:
    threads = f"{layout.threads} thread{'s' * (layout.threads > 1)}"
    spinning = ", spinning" if layout.spinning else ""
    lanes = f"{layout.lanes} lane{'s' * (layout.lanes > 1)}"
    return f"{lanes} of {threads}{spinning}, batches of {layout.max_batch_size}"
