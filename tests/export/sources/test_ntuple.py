"""N-tuple networks as graphs with external tables: moves, files, and a server's answers."""

import hashlib
import shutil
import struct
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from octofold_client import Client
from octofold_export.checks.folded_graph import FoldedGraph
from octofold_export.checks.gates import EQUAL_VALUE_POINTS, check_moves
from octofold_export.cli import main
from octofold_export.errors import ExportError, GateError
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import head
from octofold_export.sources.ntuple import ntuple_source
from octofold_game.bitboards import pack
from octofold_players.local_player import best_moves
from octofold_players.ntuple.network import NTupleNetwork
from support.cards import read_card
from support.servers import served

TUPLES = ((0, 1, 2), (1, 5, 6))
STAGES = (8, 7, 5)


@pytest.fixture(scope="module")
def network() -> NTupleNetwork:
    size = NTupleNetwork.size(TUPLES) * (len(STAGES) + 1)
    return NTupleNetwork(TUPLES, np.random.default_rng(8).uniform(0, 5_000, size).astype(np.float32), STAGES)


@pytest.fixture(scope="module")
def saved(network: NTupleNetwork, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ntuple") / "tiny"
    network.save(folder)
    return folder


@pytest.fixture(scope="module")
def models(saved: Path, boards_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    assert export(saved, folder, "--boards", str(boards_file)) == 0
    return folder


@pytest.fixture(scope="module")
def graph(network: NTupleNetwork) -> FoldedGraph:
    return graph_of(network)


def graph_of(network: NTupleNetwork) -> FoldedGraph:
    source = ntuple_source(network)
    return FoldedGraph(fold(head(source.description, source.fp32), "mean", 8), source.tensors)


def export(saved: Path, models: Path, *more: str) -> int:
    return main(["--ntuple", str(saved), "--name", "tiny", "--models", str(models), *more])


def points_lost(
    network: NTupleNetwork, boards: NDArray[np.uint8], moves: NDArray[np.int8]
) -> NDArray[np.float32]:
    """Return by how many points `[N]` each move is worse than the native player's move."""
    values = network.action_values(pack(boards))
    difference: NDArray[np.float32] = values.max(axis=1) - values[np.arange(len(boards)), moves]
    return difference


def test_moves_equal_those_of_the_native_player_up_to_ties(
    graph: FoldedGraph, network: NTupleNetwork, boards: NDArray[np.uint8]
) -> None:
    moves = graph.next_moves(boards)
    assert (points_lost(network, boards, moves) <= EQUAL_VALUE_POINTS).all()
    assert np.mean(moves == best_moves(network.action_values(pack(boards)))) > 0.98


def test_a_merge_that_outgrows_the_tables_is_worth_only_its_reward() -> None:
    board = np.array([[15, 15, 1, 0, 2, 1, 2, 1, 1, 2, 1, 2, 2, 1, 2, 1]], np.uint8)
    cheap, dear = (NTupleNetwork(TUPLES, np.full(2 * 16**3, value, np.float32)) for value in (0, 9_999))
    for player, merges in ((cheap, True), (dear, False)):
        moves = graph_of(player).next_moves(board)
        assert (moves == best_moves(player.action_values(pack(board)))).all()
        assert (moves[0] in (1, 3)) == merges


def test_the_published_tables_are_a_file_that_the_card_names_and_describes(
    models: Path, network: NTupleNetwork
) -> None:
    folder, card = models / "tiny/1", read_card(models, name="tiny")
    assert sorted(file.name for file in folder.iterdir()) == [
        "README.md",
        "card.json",
        "model.onnx",
        "tables.bin",
    ]
    content = (folder / "tables.bin").read_bytes()
    assert content == network.values.tobytes()
    digest = hashlib.sha256(content).hexdigest()
    assert card["precisions"]["fp32"]["tensors"] == {"tables": {"file": "tables.bin", "sha256": digest}}
    assert "| fp32 | `model.onnx`, `tables.bin` |  |" in (folder / "README.md").read_text()
    assert card["architecture"] == {
        "kind": "ntuple",
        "tuples": [[0, 1, 2], [1, 5, 6]],
        "stages": [8, 7, 5],
    }
    assert (card["weights"], card["checkpoint_sha256"]) == (4 * 2 * 16**3, digest)
    assert (card["decision_rule"], card["largest_exponent"]) == ("mean", 15)


def test_a_version_with_external_tables_can_be_measured_again(
    models: Path,
    saved: Path,
    boards_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    copied = Path(shutil.copytree(models, tmp_path / "models"))
    monkeypatch.chdir(tmp_path)  # the tables are found from any working folder
    again = ("--boards", str(boards_file), "--extend", "--version", "1")
    assert export(saved, copied, *again) == 0, capsys.readouterr().err
    assert read_card(copied, name="tiny") == read_card(models, name="tiny")
    (copied / "tiny/1/tables.bin").write_bytes(b"others")
    assert export(saved, copied, *again) == 1
    assert "tables.bin: the SHA-256 differs from the one in the card" in capsys.readouterr().err


def test_a_server_answers_with_the_native_players_moves(
    models: Path, network: NTupleNetwork, boards: NDArray[np.uint8]
) -> None:
    with served(models) as server, Client(server.target) as client:
        moves = client.next_moves(boards).moves
    assert (points_lost(network, boards, moves) <= EQUAL_VALUE_POINTS).all()


def test_moves_that_are_worse_than_the_players_are_found(
    graph: FoldedGraph, network: NTupleNetwork, boards: NDArray[np.uint8]
) -> None:
    values = network.action_values(pack(boards))
    values[:, 0] += np.float32(1e6)  # makes up the best move on every board
    with pytest.raises(GateError, match="a worse move than the network"):
        check_moves(graph, boards, values)


def test_a_weight_file_of_tdl2048_is_exported(tmp_path: Path, boards: NDArray[np.uint8]) -> None:
    file = tmp_path / "3patt.w"
    values = np.random.default_rng(8).uniform(0, 5_000, 4096).astype("<f4")
    file.write_bytes(
        struct.pack("<BBIBIHHHQ", ord("w"), 0, 1, 4, 0x156, 3, 0, 4, 4096) + values.tobytes() + b"\0\0"
    )
    assert export(file, tmp_path / "models") == 0
    session = onnxruntime.InferenceSession(
        str(tmp_path / "models/tiny/1/model.onnx"), providers=["CPUExecutionProvider"]
    )
    (moves,) = session.run(["move"], {"boards": boards})
    assert (points_lost(NTupleNetwork(((1, 5, 6),), values), boards, moves) <= EQUAL_VALUE_POINTS).all()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--symmetries", "1"], "--symmetries must be 8 for this network, got 1"),
        (["--precisions", "fp32,int8"], "remove int8 from --precisions"),
    ],
)
def test_a_failure_gives_a_one_line_error_and_leaves_no_file(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert export(saved, tmp_path / "models", *flags) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("octofold-export: ")
    assert message in line
    assert not (tmp_path / "models").exists()


def test_tables_too_large_for_their_indices_are_refused() -> None:
    tuples = ((0, 1, 2, 3, 4, 5, 6),) * 9
    values = np.broadcast_to(np.float32(0), NTupleNetwork.size(tuples))  # takes no memory
    with pytest.raises(ExportError, match="at most 2,147,483,648 values, got 2,415,919,104"):
        ntuple_source(NTupleNetwork(tuples, values))
