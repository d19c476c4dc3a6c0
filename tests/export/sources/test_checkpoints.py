"""Checkpoints of networks without a hand-made graph are exported with all checks and served."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from octofold_export.checks.folded_graph import FoldedGraph
from octofold_export.cli import main
from octofold_game.rules import legal_moves
from octofold_training import checkpoints
from octofold_training.networks.build import build, interface_of
from octofold_training.networks.interfaces import BoardEncoder

SMALL: dict[str, dict[str, Any]] = {
    "left-above": {
        "kind": "padded_cnn",
        "layers": 2,
        "channels": 6,
        "padding": "left_above",
        "exponents": 16,
    },
    "around": {"kind": "padded_cnn", "layers": 2, "channels": 6, "padding": "around", "exponents": 16},
    "mlp": {"kind": "mlp", "dense": [24, 16], "exponents": 16},
    "symmetric": {"kind": "symmetric_cnn", "layers": 2, "channels": 6, "exponents": 16},
    "dropout": {"kind": "q_network", "form": "dropout", "value_scale": 100},
    "conv": {"kind": "q_network", "form": "conv", "value_scale": 100},
    "residual": {"kind": "residual", "channels": 4, "blocks": 1, "head_blocks": 1, "head_width": 8},
}


Publish = Callable[[str], tuple[Path, Path]]


@pytest.fixture(scope="module")
def publish(boards_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Publish:
    """A function that publishes a kind once; it returns the folders of its checkpoint and its version."""
    folder = tmp_path_factory.mktemp("kinds")

    @cache
    def published(name: str) -> tuple[Path, Path]:
        torch.manual_seed(3)
        checkpoint, models = folder / name, folder / "models"
        checkpoints.save(checkpoint, build(SMALL[name]), SMALL[name], {})
        # only fp32: 8 bits may change many moves of an untrained network
        flags = ["--precisions", "fp32", "--boards", str(boards_file), "--symmetries", "1"]
        assert main(["--checkpoint", str(checkpoint), "--name", name, "--models", str(models), *flags]) == 0
        return checkpoint, models / name / "1"

    return published


@pytest.mark.parametrize("name", SMALL)
def test_a_graph_makes_the_move_that_the_network_prefers(
    publish: Publish, boards: NDArray[np.uint8], name: str
) -> None:
    checkpoint, version = publish(name)
    card = json.loads((version / "card.json").read_text())
    network = checkpoints.load(checkpoint).network
    interface = interface_of(network)
    assert card["weights"] == sum(weights.numel() for weights in network.parameters())
    assert card["architecture"].items() >= SMALL[name].items()
    assert card["description"]["answers"]["actions"] == list(interface.actions)
    assert card["largest_exponent"] == (15 if "exponents" in SMALL[name] else 17)

    with torch.no_grad():
        answer = network(BoardEncoder(interface, 16, torch.float32)(torch.from_numpy(boards)))
    preferred = interface.by_move(answer if interface.output is None else answer[0]).numpy()
    legal = legal_moves(boards)
    moves = FoldedGraph(onnx.load(version / "model.onnx")).next_moves(boards)
    assert legal[np.arange(len(boards)), moves].all()
    ordered = np.sort(np.where(legal, preferred, -np.inf), axis=1)
    certain = ordered[:, 3] - ordered[:, 2] > 1e-4
    assert certain.sum() > 100
    expected = np.where(legal, preferred, -np.inf).argmax(axis=1)
    assert np.array_equal(moves[certain], expected[certain])
