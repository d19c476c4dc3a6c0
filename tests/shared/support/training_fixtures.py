"""Fixtures for tests of training: one thread, a small teacher, and a network to start from."""

import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import numba
import pytest
import torch
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training import checkpoints
from octofold_training.checkpoints import Checkpoint
from octofold_training.learners.ntuple_td import NTupleLearner, NTupleOptions
from octofold_training.networks.build import build
from octofold_training.run import loop
from octofold_training.run.curves import draw_curves

__all__ = [
    "_no_curves",
    "_one_thread",
    "architecture",
    "curves",
    "full_disk",
    "start",
    "start_folder",
    "teacher",
]

ARCHITECTURE = {"kind": "cnn", "layers": 2, "channels": 16, "exponents": 16}
TUPLES = ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 4, 5), (5, 6, 9, 10))


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Use one thread, because more threads slow the tiny networks of tests down, above all on a busy machine.

    Afterwards, restore the number of threads for tests of other packages.
    """
    threads = numba.get_num_threads(), torch.get_num_threads()
    numba.set_num_threads(1)  # if both use OpenMP, torch takes numba's number of threads
    torch.set_num_threads(1)
    yield
    numba.set_num_threads(threads[0])
    torch.set_num_threads(threads[1])


@pytest.fixture(autouse=True, scope="module")
def _no_curves() -> Iterator[None]:
    """Draw no curves, because every save would draw, which takes as long as hundreds of updates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "draw_curves", lambda *_: None)
        yield


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the runs of this test draw their curves."""
    monkeypatch.setattr(loop, "draw_curves", draw_curves)


@pytest.fixture(scope="session")
def architecture() -> dict[str, object]:
    return dict(ARCHITECTURE)


@pytest.fixture(scope="session")
def teacher() -> NTupleNetwork:
    learner = NTupleLearner(NTupleOptions(tuples=TUPLES, threads=1))
    learner.learn(200_000)
    # Contiguous like a loaded network: numba compiles again for each layout.
    return replace(learner.network, values=learner.network.values.copy())


@pytest.fixture(scope="session")
def start_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of an untrained policy network."""
    folder = tmp_path_factory.mktemp("start")
    torch.manual_seed(1)
    checkpoints.save(folder, build(ARCHITECTURE), ARCHITECTURE, {})
    return folder


@pytest.fixture(scope="session")
def start(start_folder: Path) -> Checkpoint:
    return checkpoints.load(start_folder)


@pytest.fixture(scope="session")
def full_disk() -> Callable[[int], AbstractContextManager[None]]:
    """Simulate a full disk in the block: no file can grow beyond this many bytes."""

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited
