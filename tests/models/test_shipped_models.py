"""The shipped models and checkpoints match their cards, make legal moves, and play well."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from octofold_export.checks.folded_graph import FoldedGraph
from octofold_export.checks.gates import check_equivariance, check_parity
from octofold_export.checks.reference import plain_head, reference_answers
from octofold_export.publishing.readme import render_readme
from octofold_export.sources.octofold_checkpoint import from_checkpoint
from octofold_game.contract.model import read_card
from octofold_game.episodes import Episodes
from octofold_game.player_specs import make_player
from octofold_game.rules import legal_moves
from support.shipped import CARDS, newest

ROOT = Path(__file__).parents[2]
OURS = [card for card in CARDS if not {"ntuple", "ntuple-deep", "expectimax", "perimeter"} & set(card.parts)]
"""Cards of models whose checkpoints also ship."""

CHECKPOINTS = sorted(file.parent for file in ROOT.glob("checkpoints/**/checkpoint.json"))
LARGEST_FILE_BYTES = 20e6
GAMES, FLOOR = 48, 133_000
"""A number of games of swift, and a lower bound of their average that chance alone does not break: swift's
average is 195,949, and averages of 48 games have a standard deviation of 18,900."""
MANY_BOARDS = 128
"""Number of boards of each kind, large enough for stable shares: of only 48 boards, 8 bits keep 94% of the
moves or 97%."""
COMPARED_EVERY, TURNED_EVERY = 4, 64
"""Only every fourth board is compared with the checkpoint, which takes long, and only every 64th is turned,
which takes nine answers; the export did both with all of its boards. On the compared boards, every precision
keeps at least 95% of its checkpoint's moves, and at most 80% of another model's: 90% separates them."""
FINISHED = np.array([[1, 2, 1, 2, 2, 1, 2, 1] * 2], np.uint8)

Boards = NDArray[np.uint8]


def read(card: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(card.read_text(encoding="utf-8"))
    return content


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def name_of(card: Path) -> str:
    return "/".join(card.parts[-3:-1])


def graph_of(card: Path, precision: str) -> FoldedGraph:
    return FoldedGraph(onnx.load(card.parent / read(card)["precisions"][precision]["file"]))


def swift() -> FoldedGraph:
    newest = max(ROOT.glob("models/swift/*/card.json"), key=lambda card: int(card.parent.name))
    return graph_of(newest, "int8")


@pytest.fixture(scope="module")
def boards() -> Boards:
    """A finished board, boards of swift's games, and the same boards with tiles 16 times as large."""
    player = swift()
    episodes = Episodes(seed=3, games=range(4))
    seen = []
    for _ in range(800):
        seen.append(episodes.boards)
        episodes.step(player.next_moves(episodes.boards))
    played = np.concatenate(seen)
    played = np.random.default_rng(1).permutation(played[played.max(axis=1) <= 11])[:MANY_BOARDS]
    return np.concatenate([FINISHED, played, np.where(played > 0, played + 4, 0).astype(np.uint8)])


@pytest.mark.parametrize("card", CARDS, ids=name_of)
def test_every_file_of_a_model_has_the_digest_in_its_card(card: Path) -> None:
    kept = read(card)
    assert (kept["name"], str(kept["version"])) == card.parts[-3:-1]
    whole = kept.get("precisions", {}).values()  # a player has none
    graphs = [*whole, *(graph["moves"] for graph in whole if graph.get("moves"))]
    tensors = [file for graph in graphs for file in graph.get("tensors", {}).values()]
    of_player = (kept.get("player") or {}).get("files", {}).values()
    files = {file["file"]: file["sha256"] for file in (*graphs, *tensors, *of_player)}
    assert {file: sha256(card.parent / file) for file in files} == files
    networks = {graph["file"] for graph in graphs} | files.keys() & {"network.onnx"}  # of a search
    assert {file.name for file in card.parent.glob("*.onnx")} == networks
    assert all(file.stat().st_size < LARGEST_FILE_BYTES for file in card.parent.iterdir())
    assert (card.parent / "README.md").read_bytes() == render_readme(read_card(card.parent))


@pytest.mark.parametrize("folder", CHECKPOINTS, ids=lambda folder: folder.name)
def test_a_checkpoint_is_complete_and_describes_every_stage(folder: Path) -> None:
    kept = read(folder / "checkpoint.json")
    assert sha256(folder / kept["file"]) == kept["sha256"]
    stages = kept["training"]["stages"]
    assert sum(stage["positions"] for stage in stages) == kept["training"]["positions"]
    teacher = set() if folder.parent.name == "published" else {"teacher_sha256"}
    assert all({"method", "options"} | teacher <= stage.keys() for stage in stages)


@pytest.mark.parametrize("card", OURS, ids=name_of)
def test_every_precision_makes_the_checkpoints_moves_legally_and_turns_its_answer_with_the_board(
    card: Path, boards: Boards
) -> None:
    kept = read(card)
    assert list(kept["precisions"]) == ["fp32", "int8", "fp16"]
    source = from_checkpoint(ROOT / "checkpoints" / kept["name"])
    assert (source.checkpoint_sha256, source.architecture) == (
        kept["checkpoint_sha256"],
        kept["architecture"],
    )
    plain = plain_head(source.description, source.evaluate)
    compared = reference_answers(plain, boards[::COMPARED_EVERY], kept["decision_rule"], kept["symmetries"])
    turned = reference_answers(plain, boards[::TURNED_EVERY], kept["decision_rule"], kept["symmetries"])
    exact = graph_of(card, "fp32")
    check_parity(exact, compared)
    exact_moves = exact.next_moves(boards)
    for name in kept["precisions"]:
        graph = graph_of(card, name) if name != "fp32" else exact
        check_equivariance(graph, turned, kept["symmetries"])
        moves = graph.next_moves(boards) if name != "fp32" else exact_moves
        assert moves[0] == -1
        assert legal_moves(boards[1:])[np.arange(len(boards) - 1), moves[1:]].all()
        assert np.mean(moves[::COMPARED_EVERY] == compared.answers.move) > 0.9
        assert np.mean(moves == exact_moves) > 0.95
        assert kept["precisions"][name].get("agreement", 1.0) >= 0.99


@pytest.mark.parametrize(
    ("name", "player"),
    [
        ("expectimax", "expectimax:"),
        ("ntuple-deep", f"ntuple:{newest('ntuple')},"),
        ("perimeter", f"perimeter:{newest('perimeter')},"),
    ],
)
def test_a_published_search_has_the_digest_of_the_measured_player(name: str, player: str) -> None:
    card = read_card(newest(name))
    assert card.player is not None
    options = ",".join(f"{option}={value}" for option, value in card.player.options.items())
    assert card.checkpoint_sha256 == make_player(player + options).player.sha256


@pytest.mark.long  # 200,000 moves
def test_swift_keeps_its_strength() -> None:
    player = swift()
    episodes = Episodes(seed=1, games=range(GAMES))
    points = 0
    # Scores never fall, so the games need not end.
    while len(episodes.running) and points + episodes.scores.sum() <= GAMES * FLOOR:
        points += sum(ended.score for ended in episodes.step(player.next_moves(episodes.boards)))
    assert points + episodes.scores.sum() > GAMES * FLOOR
