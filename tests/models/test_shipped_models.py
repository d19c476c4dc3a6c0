"""The models that a clone has: their files, their checkpoints' answers, legality, symmetry and strength."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_export.checks.gates import check_equivariance
from octofold_export.checks.reference import Reference, network_evaluation, plain_head, reference_answers
from octofold_export.checks.runner import FoldedGraph
from octofold_export.publishing.readme import describe
from octofold_export.sources.checkpoint import one_hot_description
from octofold_export.sources.torch_network import TorchNetwork
from octofold_game.episodes import Episodes
from octofold_game.model import read_card
from octofold_game.rules import legal_moves
from octofold_training import checkpoints
from onnx import load

pytestmark = pytest.mark.timeout(400)  # on a machine that may be busy

ROOT = Path(__file__).parents[2]
CARDS = sorted((ROOT / "models").glob("*/*/card.json"))
CHECKPOINTS = {checkpoint.name: checkpoint for checkpoint in (ROOT / "checkpoints").iterdir()}
NETWORKS = [card for card in CARDS if card.parent.parent.name in CHECKPOINTS]


def name_of(card: Path) -> str:
    return "/".join(card.parts[-3:-1])


def read(card: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(card.read_text())
    return content


def graph_of(card: Path, precision: str) -> FoldedGraph:
    return FoldedGraph(load(card.parent / read(card)["precisions"][precision]["file"]))


@pytest.fixture(scope="module")
def boards() -> NDArray[np.uint8]:
    """Some boards of every stage of swift's games, and a finished one."""
    player = graph_of(ROOT / "models/swift/1/card.json", "int8")
    episodes = Episodes(seed=3, games=range(8), largest_exponent=15)
    seen = []
    for _ in range(900):
        seen.append(episodes.boards)
        episodes.step(player.next_moves(episodes.boards))
        if not len(episodes.running):
            break
    played = np.random.default_rng(1).permutation(np.concatenate(seen))[:96]
    return np.concatenate([np.array([[1, 2, 1, 2, 2, 1, 2, 1] * 2], np.uint8), played])


@pytest.mark.parametrize("card", CARDS, ids=name_of)
def test_every_file_is_the_one_that_the_card_describes(card: Path) -> None:
    content = read(card)
    for precision in content["precisions"].values():
        for file in (precision, *precision.get("tensors", {}).values()):
            digest = hashlib.sha256((card.parent / file["file"]).read_bytes()).hexdigest()
            assert digest == file["sha256"]


@pytest.mark.parametrize("card", CARDS, ids=name_of)
def test_the_page_of_a_version_is_what_its_card_says(card: Path) -> None:
    assert (card.parent / "README.md").read_bytes() == describe(read_card(card.parent))


@pytest.mark.parametrize("card", CARDS, ids=name_of)
def test_no_figure_is_below_0_or_out_of_reach(card: Path) -> None:
    content = read(card)
    for row in content["strength"]["reached"]:
        low, high = row["interval"]
        assert low == 0 or low > 1e-6
        assert 0 <= low <= row["share"] <= high <= 1
        assert row["tile"] <= 1 << content["largest_exponent"]


@pytest.mark.parametrize("card", NETWORKS, ids=name_of)
def test_the_checkpoint_is_there_and_the_graphs_answer_as_it_does(
    card: Path, boards: NDArray[np.uint8]
) -> None:
    content = read(card)
    reference = reference_of(card, boards)
    exact = graph_of(card, "fp32").answer(boards)
    assert np.abs(exact.probabilities - reference.answers.probabilities).max() < reference.tolerance
    assert (exact.move == reference.answers.move)[reference.decided].all()
    reduced = graph_of(card, "int8")
    assert np.mean(reduced.next_moves(boards) == exact.move) > 0.95
    for precision in content["precisions"]:
        moves = graph_of(card, precision).next_moves(boards)
        assert moves[0] == -1
        assert legal_moves(boards[1:])[np.arange(len(boards) - 1), moves[1:]].all()
    check_equivariance(reduced, reference)


def reference_of(card: Path, boards: NDArray[np.uint8]) -> Reference:
    """What the checkpoint answers; its digest must be the card's."""
    content = read(card)
    checkpoint = checkpoints.load(CHECKPOINTS[content["name"]])
    assert checkpoint.sha256 == content["checkpoint_sha256"]
    assert checkpoint.architecture == content["architecture"]
    description = one_hot_description(checkpoint.architecture["exponents"])
    evaluate = network_evaluation(TorchNetwork(checkpoint.network, content["name"]), description)
    return reference_answers(
        plain_head(description, evaluate), boards, content["decision_rule"], content["symmetries"]
    )


def test_swift_is_not_weaker_than_it_says() -> None:
    """Of 24 games three of four reach 1024, where the card says 96%: chance fails once in millions."""
    player = graph_of(ROOT / "models/swift/1/card.json", "int8")
    episodes = Episodes(seed=4, games=range(24), largest_exponent=15)
    reached: set[int] = set()
    for _ in range(700):  # moves, in which 1024 is reached or hardly ever
        if not len(episodes.running):
            break
        episodes.step(player.next_moves(episodes.boards))
        reached |= set(episodes.running[(episodes.boards.max(axis=1) >= 10)].tolist())
    assert len(reached) >= 18
