"""`octofold-export --extend` adds a precision and new measurements to a published version, and keeps its
graphs."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from msgspec.structs import replace
from octofold_export.cli import main
from octofold_export.errors import ExportError
from octofold_export.extension import extend
from octofold_export.flags import Flags
from octofold_export.publishing.published_card import change_card
from octofold_export.sources.octofold_checkpoint import from_checkpoint
from octofold_game.contract.model import Alternative, Alternatives, Precision
from octofold_training import checkpoints
from octofold_training.networks.build import build
from support.cards import read_card
from support.one_kind import of_one_kind

pytestmark = of_one_kind


@pytest.fixture(scope="module")
def published(checkpoint: Path, boards_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with version 1 of `small`."""
    models = tmp_path_factory.mktemp("repository") / "models"
    assert run(checkpoint, models, boards_file, "--symmetries", "2") == 0
    return models


@pytest.fixture
def models(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "models"))


def run(checkpoint: Path, models: Path, boards: Path, *more: str) -> int:
    places = ["--checkpoint", str(checkpoint), "--models", str(models), "--boards", str(boards)]
    return main([*places, "--name", "small", *more])


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


EXTEND = ("--extend", "--version", "1", "--precisions", "fp32,fp16")


def test_a_version_gets_a_precision_and_measurements_and_keeps_its_graphs(
    models: Path, checkpoint: Path, boards_file: Path
) -> None:
    before, card = digests(models / "small/1"), read_card(models)
    assert run(checkpoint, models, boards_file, *EXTEND) == 0
    after, extended = digests(models / "small/1"), read_card(models)
    assert set(after) - set(before) == {"model.fp16.onnx"}
    assert {name for name in before if before[name] != after[name]} == {"card.json", "README.md"}
    assert list(extended["precisions"]) == ["fp32", "int8", "fp16"]
    for name, precision in extended["precisions"].items():
        assert precision["sha256"] == after[precision["file"]]
        if name != "fp32":
            assert any(stage.startswith("own games") for stage in precision["agreement_by_stage"])
    assert "agreement" not in extended["precisions"]["fp32"]
    assert extended["precisions"]["int8"]["agreement"] == card["precisions"]["int8"]["agreement"]
    assert extended["parity"]["boards"] == 1024
    changed = {"precisions", "parity", "boards"}
    assert {key: value for key, value in extended.items() if key not in changed} == {
        key: value for key, value in card.items() if key not in changed
    }
    properties = onnx.load(models / "small/1/model.fp16.onnx").metadata_props
    assert {p.key: p.value for p in properties}["octofold.precision"] == "fp16"
    assert "`model.fp16.onnx`" in (models / "small/1/README.md").read_text()


def test_a_version_without_a_graph_for_moves_alone_gets_it(
    checkpoint: Path, boards_file: Path, tmp_path: Path
) -> None:
    assert run(checkpoint, tmp_path, boards_file, "--precisions", "fp32") == 0
    file, card = tmp_path / "small/1/card.json", read_card(tmp_path)
    fp32 = card["precisions"]["fp32"]
    moves = fp32["moves"]
    (tmp_path / "small/1" / moves["file"]).unlink()
    file.write_text(json.dumps(card | {"precisions": {"fp32": {**fp32, "moves": None}}}))
    assert run(checkpoint, tmp_path, boards_file, *EXTEND[:-1], "fp32") == 0
    assert read_card(tmp_path)["precisions"] == card["precisions"]
    assert digests(tmp_path / "small/1")[moves["file"]] == moves["sha256"]


def extend_while(checkpoint: Path, models: Path, boards: Path, change: Callable[[], object]) -> None:
    """Add fp16 to the version, and call `change` when the checks have begun."""

    def report(line: str) -> None:
        if line.startswith("fp32: "):
            change()

    precisions = frozenset[Precision]({"fp32", "fp16"})
    flags = Flags(name="small", models=models, version=1, precisions=precisions, boards=boards)
    extend(lambda: from_checkpoint(checkpoint), flags, report)


def test_changes_of_the_card_by_other_programs_are_kept(
    models: Path, checkpoint: Path, boards_file: Path, alternative: Alternative
) -> None:
    alternatives = Alternatives(rows=(alternative,), command="measure")

    def record() -> None:
        change_card(models / "small/1", lambda card: replace(card, alternatives=alternatives))

    extend_while(checkpoint, models, boards_file, record)
    extended = read_card(models)
    assert extended["alternatives"]["rows"][0]["average"] == 45_000
    assert list(extended["precisions"]) == ["fp32", "int8", "fp16"]


def test_a_graph_that_another_program_adds_is_not_replaced(
    models: Path, checkpoint: Path, boards_file: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "fewer.npy", np.load(boards_file)[:1_000])
    after: dict[str, str] = {}

    def add() -> None:
        assert run(checkpoint, models, tmp_path / "fewer.npy", *EXTEND) == 0
        after.update(digests(models / "small/1"))

    with pytest.raises(ExportError, match="another program has changed the fp16 graph meanwhile"):
        extend_while(checkpoint, models, boards_file, add)
    assert digests(models / "small/1") == after


def test_another_checkpoint_cannot_extend_a_version(
    models: Path,
    architecture: dict[str, Any],
    boards_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    torch.manual_seed(9)
    checkpoints.save(tmp_path / "other", build(architecture), architecture, training={})
    before = digests(models / "small/1")
    assert run(tmp_path / "other", models, boards_file, *EXTEND) == 1
    assert "made from another checkpoint" in capsys.readouterr().err
    assert digests(models / "small/1") == before


@pytest.mark.parametrize("file", ["model.onnx", "model.int8.onnx"])
def test_a_version_with_a_changed_file_cannot_be_extended(
    models: Path, checkpoint: Path, boards_file: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    (models / "small/1" / file).write_bytes(b"another graph")
    before = digests(models / "small/1")
    assert run(checkpoint, models, boards_file, *EXTEND) == 1
    assert f"{file}: the SHA-256 differs from the one in the card" in capsys.readouterr().err
    assert digests(models / "small/1") == before
