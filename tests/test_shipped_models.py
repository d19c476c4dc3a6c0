"""What ships: models and checkpoints that are what their cards say, play legal 2048, and play it well."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from octofold_client.loadtest.boards import played_boards
from octofold_export.checks.gates import check_equivariance, check_parity
from octofold_export.checks.reference import plain_head, reference_answers
from octofold_export.checks.runner import FoldedGraph
from octofold_export.publishing.readme import describe
from octofold_export.sources.checkpoint import from_checkpoint
from octofold_game.episodes import Episodes
from octofold_game.model import read_card
from octofold_game.rules import legal_moves

ROOT = Path(__file__).parents[1]
CARDS = sorted(ROOT.glob("models/*/*/card.json"))
OURS = [card for card in CARDS if "ntuple" not in card.parts]
"""Those whose checkpoints ship, too."""

CHECKPOINTS = sorted(ROOT.glob("checkpoints/*/checkpoint.json"))
LATE, RANDOM = "late boards: a 16384 and a 32768", "random boards"
LARGEST_FILE_BYTES = 20e6
GAMES, FLOOR = 48, 45_000
"""Points on average that so many games of swift do not miss by chance: it plays 67,855, and their average
scatters by 6,600."""

Boards = NDArray[np.uint8]


def read(card: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(card.read_text(encoding="utf-8"))
    return content


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def name_of(card: Path) -> str:
    return "/".join(card.parts[-3:-1])


@pytest.fixture(scope="module")
def boards() -> Boards:
    """Boards of games, and the same boards as they look with tiles 16 times as large."""
    played = played_boards(largest_exponent=11, number=32)
    return np.concatenate([played, np.where(played > 0, played + 4, 0).astype(np.uint8)])


@pytest.mark.parametrize("card", CARDS, ids=name_of)
def test_every_file_of_a_model_is_the_one_in_its_card(card: Path) -> None:
    told = read(card)
    assert (told["name"], str(told["version"])) == card.parts[-3:-1]
    files = {precision["file"]: precision["sha256"] for precision in told["precisions"].values()}
    assert {file: sha256(card.parent / file) for file in files} == files
    assert {file.name for file in card.parent.glob("*.onnx")} == files.keys()
    assert all(file.stat().st_size < LARGEST_FILE_BYTES for file in card.parent.iterdir())
    assert (card.parent / "README.md").read_bytes() == describe(read_card(card.parent))


@pytest.mark.parametrize("card", OURS, ids=name_of)
def test_a_card_names_the_agreement_of_each_reduced_precision_stage_by_stage(card: Path) -> None:
    precisions = read(card)["precisions"]
    assert list(precisions) == ["fp32", "int8", "fp16"]
    assert "agreement" not in precisions["fp32"]  # nothing was measured: it is what others are held against
    for name in ("int8", "fp16"):
        assert precisions[name]["agreement"] >= 0.99
        stages = precisions[name]["agreement_by_stage"]
        assert {"own games, up to tile 2048", "late boards: a 16384 and a 32768", "random boards"} <= set(
            stages
        )


def test_the_readme_quotes_the_card_of_cnn5_as_it_is() -> None:
    (card,) = (read(card) for card in OURS if "cnn5" in card.parts)
    measured = card["precisions"]["int8"]
    paragraphs = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")
    (said,) = (text for text in paragraphs if text.startswith("int8 is "))
    late, random = (f"{measured['agreement_by_stage'][stage]['agreement']:.1%}" for stage in (LATE, RANDOM))
    assert re.findall(r"[\d.]+%", said) == [f"{measured['agreement']:.2%}", late, random]
    assert f"{card['boards']['measured']:,} boards" in " ".join(said.split())


@pytest.mark.parametrize("folder", [file.parent for file in CHECKPOINTS], ids=lambda folder: folder.name)
def test_a_checkpoint_is_the_one_its_model_was_made_of_and_tells_every_stage(folder: Path) -> None:
    told = read(folder / "checkpoint.json")
    assert sha256(folder / told["file"]) == told["sha256"]
    cards = [read(card) for card in sorted(ROOT.glob(f"models/{folder.name}/*/card.json"))]
    assert cards[-1]["checkpoint_sha256"] == told["sha256"]
    stages = told["training"]["stages"]
    assert sum(stage["positions"] for stage in stages) == told["training"]["positions"]
    assert all({"method", "teacher_sha256", "options"} <= stage.keys() for stage in stages)


@pytest.mark.parametrize("card", OURS, ids=name_of)
def test_every_precision_plays_legal_moves_and_turns_its_answer_with_the_board(
    card: Path, boards: Boards
) -> None:
    told = read(card)
    source = from_checkpoint(ROOT / "checkpoints" / told["name"])
    plain = plain_head(source.description, source.evaluate)
    reference = reference_answers(plain, boards, told["decision_rule"], told["symmetries"])
    for name, precision in told["precisions"].items():
        graph = FoldedGraph(onnx.load(card.parent / precision["file"]))
        if name == "fp32":
            check_parity(graph, reference)
        check_equivariance(graph, reference, told["symmetries"])
        moves = graph.next_moves(boards)
        assert legal_moves(boards)[np.arange(len(boards)), moves].all()
        assert np.mean(moves == reference.answers.move) > 0.9


def test_swift_plays_as_well_as_it_did() -> None:
    card = max(ROOT.glob("models/swift/*/card.json"), key=lambda card: int(card.parent.name))
    player = FoldedGraph(onnx.load(card.parent / read(card)["precisions"]["int8"]["file"]))
    episodes = Episodes(seed=1, games=range(GAMES))
    scores: list[int] = []
    while len(episodes.running):
        scores += [ended.score for ended in episodes.step(player.next_moves(episodes.boards))]
    assert len(scores) == GAMES
    assert np.mean(scores) > FLOOR
