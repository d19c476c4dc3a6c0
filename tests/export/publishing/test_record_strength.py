"""The measured strength in the card of a published version: what is recorded, and which results are
refused."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from octofold_client.evaluation.summary import GameSummary, Summary
from octofold_export.cli import main
from octofold_export.publishing.published_card import change_card
from support.cards import read_card
from support.one_kind import of_one_kind

"""The content of a card does not depend on the kind of network."""

pytestmark = of_one_kind


@pytest.fixture(scope="module")
def models(checkpoint: Path, boards_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with version 1 of `small`."""
    folder = tmp_path_factory.mktemp("repository") / "models"
    arguments = ["--checkpoint", str(checkpoint), "--name", "small", "--models", str(folder)]
    assert main([*arguments, "--boards", str(boards_file), "--symmetries", "1"]) == 0
    return folder


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def evaluation_result(card: dict[str, Any], precision: str = "int8") -> dict[str, Any]:
    """Write the result of an evaluation of a version."""
    scores = [20_000, 40_000, 60_000, 80_000]
    games = [GameSummary(at, score, 2048, 1500, outgrown=False) for at, score in enumerate(scores)]
    return {
        "schema": 2,
        "model": card["name"],
        "version": str(card["version"]),
        "precision": precision,
        "sha256": card["precisions"][precision]["sha256"],
        "seed": 5,
        "slice": None,
        "games": len(games),
        "missing_games": 0,
        "statistics": Summary.of(games).to_json(),
        "run": {"moves_per_second": 1234.5},
    }


def record(models: Path, result: Path) -> int:
    return main(
        ["--record-strength", str(result), "--name", "small", "--version", "1", "--models", str(models)]
    )


def test_a_measured_strength_goes_into_the_card_and_nothing_else_changes(
    models: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(models, tmp_path / "models"))
    before = contents(copy)
    card = read_card(copy)
    (tmp_path / "result.json").write_text(json.dumps(evaluation_result(card)))
    assert record(copy, tmp_path / "result.json") == 0
    assert contents(copy) == before
    strength = read_card(copy)["strength"]
    assert (strength["games"], strength["average"], strength["median"]) == (4, 50_000, 50_000)
    assert (strength["best"], strength["seed"], strength["precision"]) == (80_000, 5, "int8")
    assert "moves_per_second" not in strength  # it depends on the machine
    shares = {row["tile"]: row["share"] for row in strength["reached"]}
    assert (shares[2048], shares[4096]) == (1.0, 0.0)
    assert max(shares) == 32768  # the network's largest tile
    assert {row["interval"][0] for row in strength["reached"] if row["share"] == 0} == {0.0}
    assert {**read_card(copy), "strength": None} == card
    text = (copy / "small/1/README.md").read_text()
    assert "4 games in int8, 95% intervals in brackets: average 50,000, median 50,000" in text
    assert "octofold evaluate --model small --version 1 --games 4 --seed 5" in text


def test_programs_that_change_a_card_at_the_same_time_lose_no_change(models: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(models, tmp_path / "models")) / "small/1"
    before = read_card(tmp_path / "models")["weights"]

    def add_one(_: int) -> None:
        change_card(folder, lambda card: replace(card, weights=card.weights + 1))

    with ThreadPoolExecutor(8) as threads:
        assert len(list(threads.map(add_one, range(80)))) == 80
    assert read_card(tmp_path / "models")["weights"] == before + 80


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": "0" * 64}, "not by"),
        ({"schema": 1}, "schema must be 2 or 3 or 4, got 1"),
        ({"precision": 7}, "not the result of an evaluation (precision is 7, not text)"),
        ({"missing_games": 3}, "the evaluation lacks 3 of its games; repeat its command"),
        ({"slice": {"number": 1, "of": 4, "games": 16}}, "only slice 1/4 of the games"),
    ],
)
def test_a_result_of_something_else_is_refused(
    models: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    message: str,
) -> None:
    card = read_card(models)
    (tmp_path / "result.json").write_text(json.dumps({**evaluation_result(card), **change}))
    assert record(models, tmp_path / "result.json") == 1
    assert message in capsys.readouterr().err
    assert read_card(models) == card


@pytest.mark.parametrize("text", [None, "{}", "[" * 100_000], ids=lambda text: str(text)[:9])
def test_a_damaged_result_is_refused(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    if text is not None:
        (tmp_path / "result.json").write_text(text)
    assert record(models, tmp_path / "result.json") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"octofold-export: {tmp_path / 'result.json'}: ")
