"""The command `octofold-export`: published versions, and errors."""

import hashlib
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from octofold_export.checks.reference import network_evaluation
from octofold_export.cli import main
from octofold_export.errors import GateError
from octofold_export.flags import Flags
from octofold_export.handmade.layers import float32_network
from octofold_export.handmade.weights import weights_of
from octofold_export.network_export import export_network
from octofold_export.sources.octofold_checkpoint import from_checkpoint, one_hot_description
from octofold_export.sources.source import Source
from octofold_export.sources.torch_network import TorchNetwork
from octofold_game.contract.model import Precision
from octofold_training import checkpoints
from octofold_training.networks.cnn import CNN
from support.cards import read_card
from support.one_kind import ONE_KIND, of_one_kind


@pytest.fixture(scope="module")
def models(checkpoint: Path, boards_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with version 1 of `small`."""
    folder = tmp_path_factory.mktemp("repository") / "models"
    assert main(arguments(checkpoint, folder, "--boards", str(boards_file))) == 0
    return folder


def arguments(checkpoint: Path, models: Path, *more: str) -> list[str]:
    return ["--checkpoint", str(checkpoint), "--name", "small", "--models", str(models), *more]


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_published_version_is_complete_and_its_card_correct(
    models: Path, checkpoint: Path, architecture: dict[str, Any]
) -> None:
    files = ["README.md", "card.json", "model.int8.onnx", "model.onnx", "moves.int8.onnx", "moves.onnx"]
    assert contents(models / "small") == ["1", *(f"1/{file}" for file in files), "config.pbtxt"]
    card = read_card(models)
    assert (card["format"], card["name"], card["version"]) == (1, "small", 1)
    assert card["architecture"] == architecture
    weights = {
        "cnn": 16 * 32 * 4 + 32 + 32 * 32 * 4 + 32 + 32 * 16 * 4 + 4,
        "pairs": 2 * 6 * 16 * 16 * 12 + (8 + 9) * 12 * 256 + 256 + 256 * 4 + 4,
    }
    assert card["weights"] == weights[architecture["kind"]]
    file = next(checkpoint.glob("weights-*.pt"))
    assert card["checkpoint_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert (card["decision_rule"], card["symmetries"], card["largest_exponent"]) == ("vote", 8, 15)
    equal = card["parity"].pop("equal_moves")
    assert card["parity"] == {"precision": "fp32", "boards": 1024, "one_by_one": 16}
    assert 0.99 < equal <= 1
    assert "agreement" not in card["precisions"]["fp32"]
    assert 0.99 <= card["precisions"]["int8"]["agreement"] <= 1.0
    by_stage = card["precisions"]["int8"]["agreement_by_stage"]
    assert {"own games, later", "late boards: a 16384 and a 32768", "random boards"} <= by_stage.keys()
    assert all(stage["boards"] >= 50 and 0.9 < stage["agreement"] <= 1 for stage in by_stage.values())
    for precision in card["precisions"].values():
        content = (models / "small" / "1" / precision["file"]).read_bytes()
        assert precision["sha256"] == hashlib.sha256(content).hexdigest()
    assert card["strength"] is None


def test_a_float16_graph_for_gpus_is_checked_and_published_when_asked_for(
    checkpoint: Path, boards_file: Path, tmp_path: Path
) -> None:
    more = ["--boards", str(boards_file), "--precisions", "fp32,fp16", "--symmetries", "1"]
    assert main(arguments(checkpoint, tmp_path, *more)) == 0
    card = read_card(tmp_path)
    assert list(card["precisions"]) == ["fp32", "fp16"]
    assert card["precisions"]["fp16"]["agreement"] > 0.99
    sizes = [(tmp_path / "small/1" / file).stat().st_size for file in ("model.onnx", "model.fp16.onnx")]
    assert sizes[1] < 0.8 * sizes[0]


@of_one_kind
def test_the_configuration_for_triton_has_the_names_and_types_of_the_graph(models: Path) -> None:
    config = (models / "small/config.pbtxt").read_text()
    session = onnxruntime.InferenceSession(
        str(models / "small/1/model.onnx"), providers=["CPUExecutionProvider"]
    )
    types = {"uint8": "UINT8", "int8": "INT8", "float": "FP32", "bool": "BOOL"}
    for value in [*session.get_inputs(), *session.get_outputs()]:
        kind = types[value.type.removeprefix("tensor(").removesuffix(")")]
        assert f'name: "{value.name}" data_type: TYPE_{kind} dims: [ {([*value.shape, 1])[1]} ]' in config
    assert 'name: "small"' in config
    assert 'backend: "onnxruntime"' in config
    assert 'default_model_filename: "model.onnx"' in config


@of_one_kind
def test_without_recorded_boards_the_network_plays_its_own_games(checkpoint: Path, tmp_path: Path) -> None:
    assert main(arguments(checkpoint, tmp_path, "--precisions", "fp32", "--symmetries", "1")) == 0
    assert read_card(tmp_path)["boards"] == {"source": "own games", "measured": 10_240, "calibration": 0}


def test_a_precision_that_fails_its_check_is_left_out_and_the_card_says_why(
    boards_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(4)
    undecided = CNN(layers=1, channels=16, exponents=16)
    with torch.no_grad():
        undecided.dense.weight.mul_(1e-3).add_(1)  # differences between moves are below a step of 8 bits
        undecided.dense.bias.zero_()
    checkpoints.save(tmp_path / "checkpoint", undecided, ONE_KIND, training={})
    models = tmp_path / "models"
    assert main(arguments(tmp_path / "checkpoint", models, "--boards", str(boards_file))) == 0
    line = capsys.readouterr().err.splitlines()[-1]
    refusal = r"int8: not published: int8 keeps (\d+\.\d\d%) of .*; it must keep at least 99%; --rule mean"
    assert (kept := re.match(refusal, line)) is not None, line
    assert contents(models / "small/1") == ["README.md", "card.json", "model.onnx", "moves.onnx"]
    card = read_card(models)
    assert list(card["precisions"]) == ["fp32"]
    assert "it must keep at least 99%" in card["not_published"]["int8"]
    assert f"| int8 | not published: int8 keeps {kept[1]}" in (models / "small/1/README.md").read_text()


def test_a_float32_graph_that_fails_its_check_leaves_nothing_behind(
    boards_file: Path, tmp_path: Path
) -> None:
    network, description = Unsteady(), one_hot_description(16)
    source = Source(
        description=description,
        evaluate=network_evaluation(TorchNetwork(network, "unsteady"), description),
        fp32=float32_network(weights_of(network)),
        architecture={},
        weights=0,
        checkpoint_sha256="",
    )
    flags = Flags(name="small", models=tmp_path / "models", boards=boards_file)
    with pytest.raises(GateError, match="parity at batch size 1: probabilities differ"):
        export_network(lambda: source, flags, print)
    assert not (tmp_path / "models").exists()


class Unsteady(CNN):
    """A network with answers that do not depend only on its weights."""

    def __init__(self) -> None:
        super().__init__(layers=1, channels=4, exponents=16)

    def forward(self, one_hot: torch.Tensor) -> torch.Tensor:
        return super().forward(one_hot) + torch.arange(4.0)


def break_checkpoint(checkpoint: Path, how: str) -> None:
    if how == "truncated":
        weights = next(checkpoint.glob("weights-*.pt"))
        weights.write_bytes(weights.read_bytes()[:-100])
    else:
        network = CNN(layers=1, channels=2, exponents=16)
        with torch.no_grad():
            network.dense.bias[0] = torch.nan
        sizes = {"kind": "cnn", "layers": 1, "channels": 2, "exponents": 16}
        checkpoints.save(checkpoint, network, sizes, training={})


@of_one_kind
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("truncated", ".pt is damaged or was replaced"),
        ("not a number", "weights that are not finite numbers"),
    ],
)
def test_an_unusable_checkpoint_gives_a_one_line_error_and_no_file(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str, message: str
) -> None:
    copy = Path(shutil.copytree(checkpoint, tmp_path / "checkpoint"))
    break_checkpoint(copy, how)
    assert main(arguments(copy, tmp_path / "models")) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("octofold-export: ")
    assert message in line
    assert not (tmp_path / "models").exists()


@of_one_kind
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--models", "FILE"], "is not a folder"),
        (["--boards", "FILE"], "not an .npy file"),
    ],
)
def test_wrong_inputs_give_a_one_line_error(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    flags = [str(file) if flag == "FILE" else flag for flag in flags]
    assert main([*arguments(checkpoint, tmp_path / "models"), *flags]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert contents(tmp_path) == ["file"]


@of_one_kind
def test_a_version_that_another_export_publishes_first_is_not_replaced(
    checkpoint: Path, boards_file: Path, tmp_path: Path
) -> None:
    """The error names both numbers, so nothing of a long export is lost."""
    taken = tmp_path / "small/1/card.json"

    def take(_graph: bytes) -> Any:
        taken.parent.mkdir(parents=True, exist_ok=True)
        taken.write_text("{}")

    def load() -> Source:
        return replace(from_checkpoint(checkpoint), locate_tables=take)

    only = frozenset[Precision]({"fp32"})
    flags = Flags(name="small", models=tmp_path, boards=boards_file, precisions=only)
    assert export_network(load, flags, lambda _: None) == tmp_path / "small/2"
    assert (read_card(tmp_path, 2)["version"], taken.read_text()) == (2, "{}")
    properties = {p.key: p.value for p in onnx.load(tmp_path / "small/2/model.onnx").metadata_props}
    assert properties["octofold.version"] == "2"


@of_one_kind
def test_an_existing_version_is_refused_before_any_work(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path / "no checkpoint", models, "--version", "1")) == 1
    assert "published versions are never replaced" in capsys.readouterr().err
