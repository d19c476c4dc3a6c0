"""Other people's networks, each published by one command, play as they did in PyTorch."""

import json
from collections.abc import Callable
from dataclasses import dataclass
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
from support.lessons import Lessons, one_hot, snake_lessons, train
from torch import Tensor, nn

pytestmark = pytest.mark.long  # each is trained, converted and published

SEEN = [0, 2]
"""The board and its half turn."""

Encode = Callable[[NDArray[np.uint8]], Tensor]


def planes(boards: NDArray[np.uint8]) -> Tensor:
    return one_hot(boards).permute(0, 2, 1).reshape(-1, 16, 4, 4)


def flat(boards: NDArray[np.uint8]) -> Tensor:
    return one_hot(boards).flatten(1)


def logarithms(boards: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(boards).float() / 11


def exponents(boards: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(boards).long()


def tiles_alone(boards: NDArray[np.uint8]) -> Tensor:
    return one_hot(boards, first=1).permute(0, 2, 1).reshape(-1, 15, 4, 4)


@dataclass(frozen=True)
class Stranger:
    """A network, how it is trained and given boards, and what the command has to be told."""

    make: Callable[[], nn.Module]
    encode: Encode
    flags: str
    steps: int
    actions: tuple[int, int, int, int] = (0, 1, 2, 3)
    "our moves, in the order of its outputs"
    select: str | None = None


ORDER = "--cells rows --actions up,right,down,left"
"""Networks that play too weakly for games to tell it."""

STRANGERS = {
    "padded": Stranger(networks.PaddedCNN, planes, "--answer policy_logits", 600),
    "mlp": Stranger(networks.MLP, flat, "", 600, (3, 0, 2, 1)),
    "dueling": Stranger(
        networks.DuelingQ,
        logarithms,
        f"--input log2 --divide-by 11 --answer action_values --scale 100 {ORDER}",
        500,
    ),
    "heads": Stranger(
        lambda: networks.PolicyAndValue(16, 1),
        planes,
        "--answer policy_logits --output policy",
        400,
        select="policy",
    ),
    "transformer": Stranger(
        lambda: networks.TokenTransformer(16), exponents, f"--answer policy_logits {ORDER}", 120
    ),
}


def trained(stranger: Stranger, lessons: Lessons) -> nn.Module:
    torch.manual_seed(2)
    boards, moves = snake_lessons()
    if ORDER in stranger.flags:
        boards, moves = lessons.boards, lessons.leads.argmax(axis=1)
    answers = torch.from_numpy(np.argsort(stranger.actions)[moves])
    inputs = stranger.encode(boards)
    return train(stranger.make(), inputs, answers, select=stranger.select, steps=stranger.steps)


class Ranked(nn.Module):
    """The values of the four afterstates of each board, as logits of the moves."""

    def __init__(self, value: nn.Module) -> None:
        super().__init__()
        self.value = value

    def forward(self, cells: Tensor) -> Tensor:
        values: Tensor = self.value(cells.flatten(0, 1))
        return values.view(-1, 4)


def trained_value() -> nn.Module:
    torch.manual_seed(2)
    boards, moves = (lesson[:20_000] for lesson in snake_lessons())
    after, _, _ = afterstates(boards)
    cells = tiles_alone(after.reshape(-1, 16)).view(-1, 4, 15, 4, 4)
    module = networks.AfterstateValue()
    train(Ranked(module), cells, torch.from_numpy(moves), steps=300)
    return module.eval()


def card_of(folder: Path) -> dict[str, Any]:
    card: dict[str, Any] = json.loads((folder / "card.json").read_text())
    return card


def publish(arguments: str, lessons_file: Path, *more: str) -> int:
    common = f"--name it --models models --symmetries 2 --boards {lessons_file}"
    return main([*arguments.split(), *common.split(), *more])


def ask(file: Path, boards: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"boards": boards}), strict=True))


def naive_probabilities(
    stranger: Stranger, module: nn.Module, boards: NDArray[np.uint8]
) -> NDArray[np.float64]:
    """`[N, 4]`: the mean over both views of the softmax over legal moves, by the network's forward pass."""
    legal = legal_moves(boards)
    total = np.zeros((len(boards), 4))
    for cells, moves in zip(CELLS[SEEN], MOVES[SEEN], strict=True):
        with torch.no_grad():
            answer = module(stranger.encode(boards[:, cells]))
        numbers = (answer[stranger.select] if stranger.select else answer).double().numpy()
        if isinstance(module, networks.MLP):
            numbers = np.log(numbers)
        ours = numbers[:, np.argsort(stranger.actions)][:, moves]
        odds = np.where(legal, np.exp(ours - np.where(legal, ours, -np.inf).max(axis=1, keepdims=True)), 0)
        total += odds / odds.sum(axis=1, keepdims=True) / 2
    return total


@pytest.mark.parametrize("name", STRANGERS)
def test_a_strangers_network_is_published_by_one_command_and_answers_as_it_did(
    name: str, lessons: Lessons, lessons_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = STRANGERS[name]
    module = trained(stranger, lessons)
    save_file(module.state_dict(), tmp_path / "weights.safetensors")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(networks, "make", stranger.make, raising=False)
    command = f"--module support.foreign_networks:make --weights weights.safetensors {stranger.flags}"
    assert publish(command, lessons_file) == 0
    folder = tmp_path / "models/it/1"
    card = card_of(folder)
    evidence = card["evidence"]
    assert "problem" not in evidence
    if ORDER not in stranger.flags:
        assert evidence["score"] > max(evidence["others"].values())
        assert "warning" not in evidence
    assert card["description"]["reads"]["cells"] == "rows"
    actions = [MOVE_NAMES[move] for move in stranger.actions]
    assert card["description"]["answers"]["actions"] == actions
    assert card["parity"]["equal_moves"] > 0.999
    answers = ask(folder / "model.onnx", lessons.boards[:200])
    assert legal_moves(lessons.boards[:200])[np.arange(200), answers["move"]].all()
    if name != "dueling":
        expected = naive_probabilities(stranger, module, lessons.boards[:200])
        np.testing.assert_allclose(answers["probabilities"], expected, atol=1e-4)


def test_a_value_network_on_afterstates_is_published_and_plays_reward_plus_value(
    lessons: Lessons, lessons_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = trained_value()
    torch.save({"state_dict": module.state_dict(), "epoch": 3}, tmp_path / "value.pt")
    (tmp_path / "value.toml").write_text(DESCRIPTION)
    monkeypatch.chdir(tmp_path)
    command = "--module support.foreign_networks:AfterstateValue --weights value.pt"
    assert publish(command, lessons_file, "--precisions", "fp32") == 0
    card = card_of(tmp_path / "models/it/1")
    assert card["decision_rule"] == "mean"
    assert card["largest_exponent"] == 15
    assert card["description"]["reads"]["empty_plane"] is False
    others = card["evidence"]["others"]
    assert {"no value at all", "small values as good ones"} <= others.keys()
    assert card["evidence"]["score"] > max(others.values())
    asked = lessons.boards[:100]
    after, rewards, legal = afterstates(asked)
    worth = rewards.astype(np.float64)
    for cells in CELLS[SEEN]:
        with torch.no_grad():
            values = module(tiles_alone(after.reshape(-1, 16)[:, cells])).double().numpy()
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
