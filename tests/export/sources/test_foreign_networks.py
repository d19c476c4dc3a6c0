"""Foreign networks, each published by one command, play as in PyTorch."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from octofold_export.cli import main
from octofold_game.rules import MOVE_NAMES, afterstates, legal_moves
from octofold_game.symmetries import CELLS, MOVES
from safetensors.torch import save_file
from support import foreign_networks as networks
from support.json_files import read_json
from support.lessons import Lessons, one_hot, snake_lessons, train
from torch import Tensor, nn

pytestmark = pytest.mark.long  # each network is trained, converted and published

SEEN = [0, 2]
"""The board and its half turn."""
ACTIONS = (3, 0, 2, 1)
"""Our moves, in the order of the outputs of the network."""


def tiles_alone(boards: NDArray[np.uint8]) -> Tensor:
    return one_hot(boards, first=1).permute(0, 2, 1).reshape(-1, 15, 4, 4)


class Ranked(nn.Module):
    """A network whose logits of the moves are its values of the four afterstates."""

    def __init__(self, value: nn.Module) -> None:
        super().__init__()
        self.value = value

    def forward(self, cells: Tensor) -> Tensor:
        values: Tensor = self.value(cells.flatten(0, 1))
        return values.view(-1, 4)


def publish(arguments: str, lessons_file: Path, *more: str) -> int:
    common = f"--name it --models models --symmetries 2 --boards {lessons_file}"
    return main([*arguments.split(), *common.split(), *more])


def ask(file: Path, boards: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"boards": boards}), strict=True))


def test_a_foreign_network_is_published_by_one_command_and_keeps_its_answers(
    lessons: Lessons, lessons_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(2)
    boards, moves = snake_lessons()
    answers = torch.from_numpy(np.argsort(ACTIONS)[moves])
    module = train(networks.MLP(), one_hot(boards).flatten(1), answers, steps=600)
    save_file(module.state_dict(), tmp_path / "weights.safetensors")
    monkeypatch.chdir(tmp_path)
    assert publish("--module support.foreign_networks:MLP --weights weights.safetensors", lessons_file) == 0
    folder = tmp_path / "models/it/1"
    card = read_json(folder / "card.json")
    assert card["evidence"]["score"] > max(card["evidence"]["others"].values())
    assert not {"problem", "warning"} & card["evidence"].keys()
    assert card["description"]["reads"]["cells"] == "rows"
    assert card["description"]["answers"]["actions"] == [MOVE_NAMES[move] for move in ACTIONS]
    assert card["parity"]["equal_moves"] > 0.999

    asked = lessons.boards[:200]
    legal = legal_moves(asked)
    expected = np.zeros((200, 4))
    for cells, turned in zip(CELLS[SEEN], MOVES[SEEN], strict=True):
        with torch.no_grad():
            odds = module(one_hot(asked[:, cells]).flatten(1)).double().numpy()
        ours = np.where(legal, odds[:, np.argsort(ACTIONS)][:, turned], 0)
        expected += ours / ours.sum(axis=1, keepdims=True) / 2
    published = ask(folder / "model.onnx", asked)
    assert legal[np.arange(200), published["move"]].all()
    np.testing.assert_allclose(published["probabilities"], expected, atol=1e-4)


def test_a_value_network_on_afterstates_is_published_and_plays_reward_plus_value(
    lessons: Lessons, lessons_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(2)
    boards, moves = (lesson[:20_000] for lesson in snake_lessons())
    cells = tiles_alone(afterstates(boards)[0].reshape(-1, 16)).view(-1, 4, 15, 4, 4)
    module = networks.AfterstateValue()
    train(Ranked(module), cells, torch.from_numpy(moves), steps=300)
    module.eval()
    torch.save({"state_dict": module.state_dict(), "epoch": 3}, tmp_path / "value.pt")
    (tmp_path / "value.toml").write_text(DESCRIPTION)
    monkeypatch.chdir(tmp_path)
    command = "--module support.foreign_networks:AfterstateValue --weights value.pt"
    assert publish(command, lessons_file, "--precisions", "fp32") == 0
    card = read_json(tmp_path / "models/it/1" / "card.json")
    assert (card["decision_rule"], card["largest_exponent"]) == ("mean", 15)
    assert card["description"]["reads"]["empty_plane"] is False
    others = card["evidence"]["others"]
    assert {"values ignored", "small values counted as good"} <= others.keys()
    assert card["evidence"]["score"] > max(others.values())
    asked = lessons.boards[:100]
    after, rewards, legal = afterstates(asked)
    worth = rewards.astype(np.float64)
    for cells_seen in CELLS[SEEN]:
        with torch.no_grad():
            values = module(tiles_alone(after.reshape(-1, 16)[:, cells_seen])).double().numpy()
        worth += 1000 * values.reshape(-1, 4) / 2
    worth = np.where(legal, worth, -np.inf)
    ranked = np.sort(worth, axis=1)
    clear = ranked[:, 3] - ranked[:, 2] > 1
    moves = ask(tmp_path / "models/it/1/model.onnx", asked)["move"]
    assert clear.mean() > 0.9
    assert (moves == worth.argmax(axis=1))[clear].all()


DESCRIPTION = """
[reads]
kind = "one_hot"
planes = 15
empty_plane = false

[answers]
scale = 1000
"""
