"""Backends and helpers for tests of the model registry."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_server.backends.backend import EVERYTHING, Layout, Moves, RequestedOutputs
from octofold_server.models.loading import ServedVersion
from octofold_server.models.registry import Models

from support.batches import Awaited, queue
from support.fakes import FakeBackend, RecordingBackend
from support.waiting import wait_for

NewModels = Callable[..., Models]
BOARD = np.ones((1, 16), np.uint8)


class Backends:
    """A factory of backends by the content of the model file. It keeps weak references to them."""

    def __init__(self) -> None:
        self.held: list[RecordingBackend] = []
        self.alive: weakref.WeakSet[Any] = weakref.WeakSet()

    def __call__(self, model: bytes, layout: Layout, *_files: object) -> Any:
        if model == b"bad":
            raise RuntimeError(f"a bug for {layout.device}\nof {layout.max_batch_size} boards")
        if model == b"huge":
            raise MemoryError
        backend: Any = RecordingBackend() if model == b"recording" else Another()
        if model == b"recording":
            self.held.append(backend)
        self.alive.add(backend)
        return [backend]


class Another(FakeBackend):
    def run(self, boards: NDArray[np.uint8], requested: RequestedOutputs = EVERYTHING) -> Moves:
        return super().run(boards, requested)


def submit(served: ServedVersion) -> Awaited:
    call = Awaited(BOARD)
    queue(served.batcher, call)
    return call


def states(models: Models) -> dict[str, str]:
    return {f"{status.name}/{status.version}": status.state.name for status in models.index()}


def settled(models: Models) -> dict[str, str]:
    """Wait until no version is draining; return the states."""
    wait_for(lambda: "UNLOADING" not in states(models).values())
    return states(models)


def reason(models: Models, version: int) -> str:
    return next(status.reason for status in models.index() if status.version == version)
