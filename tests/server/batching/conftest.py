"""Fixtures for tests of the batcher."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from octofold_server.batching.batcher import Batcher
from octofold_server.batching.search_control import SearchControl
from support.batches import NewBatcher, NewHeld, hold
from support.fakes import RecordingBackend


@pytest.fixture
def new_batcher() -> Iterator[NewBatcher]:
    batchers: list[tuple[Batcher, RecordingBackend]] = []

    def new(
        backend: RecordingBackend,
        *,
        lanes: int = 1,
        max_batch_size: int = 32,
        queue_capacity: int = 100_000,
        search_cores: int = 0,
        clock: Callable[[], float] = time.monotonic,
        lends: bool = False,
    ) -> Batcher:
        batcher = Batcher(
            [backend] * lanes,
            max_batch_size=max_batch_size,
            queue_capacity=queue_capacity,
            search_control=SearchControl(search_cores) if search_cores else None,
            clock=clock,
            lends=lends,
        )
        batchers.append((batcher, backend))
        return batcher

    yield new
    for batcher, backend in batchers:
        backend.gate.set()
        batcher.close()


@pytest.fixture
def new_held(new_batcher: NewBatcher) -> NewHeld:
    """Make a backend and a batcher whose lanes are busy until the backend's gate is set."""

    def new(lanes: int = 1, poison: int | None = None, **options: int) -> tuple[RecordingBackend, Batcher]:
        backend = RecordingBackend(poison)
        batcher = new_batcher(backend, lanes=lanes, **options)
        hold(batcher, backend, lanes)
        return backend, batcher

    return new
