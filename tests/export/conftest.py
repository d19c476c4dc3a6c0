"""Fixtures of the export's tests: a small untrained network of each kind, and boards from real games."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from octofold_export.handmade.weights import NetworkWeights, weights_of
from octofold_game.contract.model import Alternative
from octofold_game.episodes import Episodes
from octofold_game.rules import legal_moves
from octofold_training import checkpoints
from octofold_training.networks.build import build
from support.lessons import Lessons, record_lessons
from support.linear_onnx import Weights, linear_weights
from torch import nn
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

ARCHITECTURES = [
    {"kind": "cnn", "layers": 2, "channels": 32, "exponents": 16},
    {"kind": "pairs", "patterns": ["lines", "squares"], "features": 12, "dense": [256], "exponents": 16},
]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _one_registry() -> Iterator[None]:
    """Cache the translations and the operators of torch's converter. Reading them again takes most of the
    time of an export."""
    try:
        from torch._export.utils import _materialize_cpp_cia_ops
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:  # other versions of torch may lack these names; exports are then only slower
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
        patch.setattr("torch._export.utils._materialize_cpp_cia_ops", cache(_materialize_cpp_cia_ops))
        yield


class InputOfLinear(TorchFunctionMode):
    """A recorder of the input of the last linear layer, whether a module or a function computes it."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is linear:
            self.seen: torch.Tensor = arguments[0]
        return function(*arguments, **(keywords or {}))


@pytest.fixture(scope="session", params=ARCHITECTURES, ids=lambda architecture: architecture["kind"])
def architecture(request: pytest.FixtureRequest) -> dict[str, Any]:
    chosen: dict[str, Any] = request.param
    return chosen


@pytest.fixture(scope="session")
def module(architecture: dict[str, Any], boards: NDArray[np.uint8]) -> nn.Module:
    """A network that prefers moves toward large tiles.

    Without preferences, rounding would decide its moves.
    """
    square = boards.reshape(-1, 4, 4).astype(np.float32)
    up = square[:, :2].sum(axis=(1, 2)) - square[:, 2:].sum(axis=(1, 2))
    left = square[:, :, :2].sum(axis=(1, 2)) - square[:, :, 2:].sum(axis=(1, 2))
    liking = np.stack([up, -left, -up, left], axis=1) / 4
    return fitted(architecture, boards, liking.astype(np.float32))


@pytest.fixture(scope="session")
def value_architecture(architecture: dict[str, Any]) -> dict[str, Any]:
    return {**architecture, "head": "value", "value_scale": 20_000}


@pytest.fixture(scope="session")
def value_module(value_architecture: dict[str, Any], boards: NDArray[np.uint8]) -> nn.Module:
    """A value network that prefers large tiles in the top left corner."""
    liking = boards @ np.linspace(0.1, -0.1, 16, dtype=np.float32)[:, None]
    return fitted(value_architecture, boards, liking)


def fitted(
    architecture: dict[str, Any], boards: NDArray[np.uint8], targets: NDArray[np.float32]
) -> nn.Module:
    """Return a network of random features whose last layer approximates `targets` `[M, outputs]`."""
    torch.manual_seed(3)
    network = build(architecture).eval()
    *_, output = (layer for layer in network.modules() if isinstance(layer, nn.Linear))
    one_hot = torch.eye(16)[torch.from_numpy(boards.astype(np.int64))].view(-1, 4, 4, 16).permute(0, 3, 1, 2)
    with torch.no_grad():
        with InputOfLinear() as last:
            network(one_hot)
        gram = last.seen.T @ last.seen
        ridge = 0.5 * gram.diagonal().mean() * torch.eye(len(gram))
        output.weight.copy_(torch.linalg.solve(gram + ridge, last.seen.T @ torch.from_numpy(targets)).T)
    return network


@pytest.fixture(scope="session")
def network(module: nn.Module) -> NetworkWeights:
    return weights_of(module)


@pytest.fixture(scope="session")
def checkpoint(
    module: nn.Module, architecture: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "small"
    checkpoints.save(folder, module, architecture, training={})
    return folder


@pytest.fixture(scope="session")
def boards() -> NDArray[np.uint8]:
    """Boards `[M, 16]` of games of random legal moves, with tiles of all exponents."""
    random = np.random.default_rng(5)
    episodes = Episodes(seed=5, games=range(12))
    seen = []
    while len(episodes.running):
        seen.append(episodes.boards)
        preferences = np.where(legal_moves(episodes.boards), random.random((len(episodes.boards), 4)), -1)
        episodes.step(preferences.argmax(axis=1))
    played = np.concatenate(seen)
    # Random games end at small tiles: raise all tiles of some boards, which keeps their legal moves.
    lifts = random.integers(0, 16 - played.max(axis=1))
    lifted = np.where(played > 0, played + lifts[:, None], 0).astype(np.uint8)
    return random.permutation(lifted)


@pytest.fixture(scope="session")
def boards_file(boards: NDArray[np.uint8], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("boards") / "boards.npy"
    np.save(file, boards)
    return file


@pytest.fixture(scope="session")
def lessons() -> Lessons:
    return record_lessons()


@pytest.fixture(scope="session")
def lessons_file(lessons: Lessons, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("lessons") / "boards.npy"
    np.save(file, lessons.boards[:3_000])
    return file


@pytest.fixture
def alternative() -> Alternative:
    """The measured score of one view of a version."""
    return Alternative(
        symmetries=1,
        decision_rule="vote",
        precision="int8",
        games=4,
        average=45_000.0,
        average_interval=(40_000.0, 50_000.0),
        difference=-5_000.0,
        difference_interval=None,
    )


@pytest.fixture(scope="session")
def weights(lessons: Lessons) -> Weights:
    """Weights of a linear player, for ONNX files."""
    return linear_weights(lessons)
