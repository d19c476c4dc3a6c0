"""The three forms of PyTorch networks, and errors about networks that cannot be used."""

import shlex
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from octofold_export.cli import main
from octofold_game.rules import legal_moves
from support.cards import read_card
from support.lessons import Lessons, one_hot, snake_network
from support.linear_onnx import linear_weights
from torch import Tensor, nn

FAST = ["--precisions", "fp32", "--symmetries", "1"]

NETWORK = """
import torch
from torch import Tensor, nn


class Linear(nn.Module):
    def __init__(self, outputs: int = 4) -> None:
        super().__init__()
        self.out = nn.Linear(256, outputs, bias=False)

    def forward(self, cells: Tensor) -> Tensor:
        print("forward", cells.shape)
        return self.out(cells)


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))


def three_numbers() -> nn.Module:
    network = Linear(3)
    nn.init.ones_(network.out.weight)
    return network


def that_exits() -> nn.Module:
    raise SystemExit(3)


def broken() -> nn.Module:
    raise RuntimeError("no such luck")


def needy(size: int) -> nn.Module:
    return Linear(size)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lessons: Lessons) -> Path:
    """The working folder, with a Python file of a network `Linear` and its weights."""
    name = f"linear_player_{tmp_path.name}"  # modules are imported once
    (tmp_path / f"{name}.py").write_text(NETWORK)
    (tmp_path / "needs_absent.py").write_text("import absent_package")
    weights = torch.from_numpy(linear_weights(lessons).T.copy())
    torch.save({"out.weight": weights}, tmp_path / "linear.pt")
    torch.save({"out.weight": weights[:3], "out.bias": torch.zeros(3)}, tmp_path / "three.pt")
    torch.save({"out.weight": weights, "more": weights}, tmp_path / "more.pt")
    torch.save({"in.weight": weights}, tmp_path / "other.pt")
    torch.save({"out.weight": weights * torch.nan}, tmp_path / "nan.pt")
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w") as archive:
        archive.writestr("data.pkl", b"")
        archive.filelist[0].file_size = 3 << 30
    with zipfile.ZipFile(tmp_path / "script.pt", "w") as archive:
        archive.writestr("script/constants.pkl", b"")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


class Linear(nn.Module):
    """The same network as in the Python file."""

    def __init__(self, weights: NDArray[np.float32]) -> None:
        super().__init__()
        self.out = nn.Linear(256, 4, bias=False)
        self.out.weight = nn.Parameter(torch.from_numpy(weights.T.copy()))

    def forward(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        return cells.sum(dim=1), self.out(cells)


def publish(boards: Path, *arguments: str) -> int:
    common = ["--name", "linear", "--models", "models", "--boards", str(boards)]
    order = [] if "--actions" in arguments else ["--actions", "up,right,down,left"]
    return main([*common, *FAST, *order, *arguments])


def check_published(place: Path, lessons: Lessons) -> dict[str, Any]:
    """Check that the published file plays the legal move with the largest sum; return its card."""
    boards = lessons.boards[:300]
    sums = one_hot(boards).flatten(1).numpy() @ linear_weights(lessons)
    expected = np.where(legal_moves(boards), sums, -np.inf).argmax(axis=1)
    file = place / "models/linear/1/model.onnx"
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (moves,) = session.run(["move"], {"boards": boards})
    assert np.mean(moves == expected) > 0.999
    return read_card(place / "models", name="linear")


def test_torchscript_is_published(place: Path, lessons: Lessons, lessons_file: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Linear(linear_weights(lessons))).save(place / "linear.ts")
    flags = ["--torchscript", "linear.ts", "--answer", "policy_logits", "--output", "1", "--layout", "flat"]
    assert publish(lessons_file, *flags) == 0
    assert check_published(place, lessons)["architecture"]["kind"] == "TorchScript"


def test_a_wrong_order_of_actions_is_refused_with_the_right_flags_and_can_be_accepted(
    place: Path, lessons_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(snake_network("top left").state_dict(), place / "snake.pt")
    command = [f"--module=linear_player_{place.name}:dense", "--weights", "snake.pt", "--layout", "flat"]
    command += ["--answer", "policy_logits", "--actions", "right,up,left,down"]
    assert publish(lessons_file, *command) == 1
    *_, line, right = capsys.readouterr().err.splitlines()
    assert "the description seems wrong: with --actions up,down,left,right the network scores" in line
    assert not (place / "models").exists()
    assert right.startswith("octofold-export --name linear --models models --boards ")
    assert right.endswith(" --planes 16 --answer policy_logits --actions up,down,left,right")
    assert main(shlex.split(right)[1:]) == 0
    assert publish(lessons_file, *command, "--accept") == 0
    card = read_card(place / "models", 2, "linear")
    assert "the network scores" in card["evidence"]["problem"]
    assert (
        "Accepted although the description seems wrong" in (place / "models/linear/2/README.md").read_text()
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--module", "needs_absnt:Linear"], "No module named 'needs_absnt'; did you mean needs_absent?"),
        (["--module", "HERE:linear"], "has no 'linear'; did you mean Linear?"),
        (["--module", "HERE:Linear"], "networks with different weights, as if these were not trained"),
        (["--module", "HERE:Linear", "--weights", "linaer.pt"], "directory; did you mean linear.pt?"),
        (
            ["--module", "HERE:Linear", "--weights", "linear.pt", "--input", "tiles"],
            "the network accepts no input that fits input tiles, layout flat",
        ),
        (["--module", "Linear"], "must be package.module:callable, got 'Linear'"),
        (
            ["--module", "nets/HERE.py:Linear"],
            "takes a module's name, not its file: write HERE:Linear",
        ),
        (
            ["--module", "needs_absent:Linear"],
            "No module named 'absent_package'; install it in the environment of octofold-export",
        ),
        (
            ["--module", "HERE:needy"],
            "name a function that takes no arguments and returns the module",
        ),
        (["--module", "HERE:broken"], "broken() fails: RuntimeError: no such luck"),
        (
            ["--module", "HERE:Linear", "--weights", "three.pt"],
            "'out.weight' must have the shape [4, 256], got [3, 256]",
        ),
        (["--module", "HERE:Linear", "--weights", "more.pt"], "the module has no tensor 'more'"),
        (["--module", "HERE:Linear", "--weights", "other.pt"], "'out.weight' is missing"),
        (["--module", "HERE:Linear", "--weights", "nan.pt"], "NaN or infinite numbers"),
        (
            ["--module", "HERE:Linear", "--weights", "bomb.pt"],
            "bomb.pt: the weights must take at most 2,130,706,432 bytes, got 3,221,225,472",
        ),
        (["--module", "HERE:that_exits"], "that_exits() fails: SystemExit: 3"),
        (["--module", "HERE:three_numbers"], "must have the shape [N, 4] for policy_logits, got [N, 3]"),
        (["--torchscript", "linear.pt"], "linear.pt: not a TorchScript file"),
        (["--torchscript", "script.pt"], "script.pt: not a TorchScript file that torch can load ("),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_unusable_network_gives_one_line_and_nothing_is_published(
    flags: list[str], message: str, place: Path, lessons_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = [flag.replace("HERE", f"linear_player_{place.name}") for flag in flags]
    layout = [] if "--layout" in flags else ["--layout", "flat"]
    assert publish(lessons_file, "--answer", "policy_logits", *layout, *here) == 1
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("octofold-export: ")
    assert message.replace("HERE", f"linear_player_{place.name}") in line
    assert not (place / "models").exists()
