"""An n-tuple network in one small graph makes the moves of the packed network, wherever the graph is
loaded."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from octofold_export.checks.gates import EQUAL_VALUE_POINTS
from octofold_export.cli import main
from octofold_game.bitboards import pack
from octofold_players.compiled.table_files import TableFileError
from octofold_players.local_player import best_moves
from octofold_players.ntuple.compact_tables import UNIT, CompactTables
from octofold_players.ntuple.network import NTupleNetwork
from octofold_players.ntuple.player import NTuplePlayer
from octofold_server.backends.backend import Layout, RequestedOutputs
from octofold_server.backends.onnx_backend import onnx_lanes
from octofold_server.backends.onnx_tables import PAGE, PAGE_OFFSETS, PAGES, without_tables
from octofold_server.backends.onnx_views import ViewsSession
from support.cards import read_card

TUPLES = ((0, 1, 2, 4, 5), (5, 6, 9, 10, 13))
MEGABYTES = "1.4"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = np.random.default_rng(8).normal(0, 2_000, NTupleNetwork.size(TUPLES)).astype(np.float32)
    folder = tmp_path_factory.mktemp("ntuple") / "trained"
    NTupleNetwork(TUPLES, values).save(folder)
    return folder


@pytest.fixture(scope="module")
def models(trained: Path, boards_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    assert export(trained, folder, "--boards", str(boards_file), "--max-megabytes", MEGABYTES) == 0
    return folder


@pytest.fixture(scope="module")
def unpacked(models: Path) -> NTupleNetwork:
    return NTupleNetwork.load(models / "small/1")


def export(trained: Path, models: Path, *more: str) -> int:
    return main(["--ntuple", str(trained), "--name", "small", "--models", str(models), *more])


def points_lost(network: NTupleNetwork, boards: NDArray[np.uint8], moves: NDArray[np.int8]) -> NDArray[Any]:
    """Return by how many points `[N]` each move is worse than the native player's move."""
    values = network.action_values(pack(boards))
    difference: NDArray[Any] = values.max(axis=1) - values[np.arange(len(boards)), moves]
    return difference


def test_the_model_is_one_small_file_that_the_card_describes(models: Path) -> None:
    folder = models / "small/1"
    assert sorted(file.name for file in folder.iterdir()) == [
        "README.md",
        "card.json",
        "model.onnx",
        "moves.onnx",
    ]
    assert (folder / "model.onnx").stat().st_size <= float(MEGABYTES) * 1e6
    card = json.loads((folder / "card.json").read_text())
    compact = card["compact_tables"]
    assert compact["entries"] == 2 * 16**5
    assert card["weights"] == compact["kept"] > 10_000


def test_a_bare_onnxruntime_plays_the_moves_of_the_unpacked_network(
    models: Path, unpacked: NTupleNetwork, boards: NDArray[np.uint8]
) -> None:
    session = onnxruntime.InferenceSession(
        str(models / "small/1/model.onnx"), providers=["CPUExecutionProvider"]
    )
    random = np.random.default_rng(1).integers(0, 16, (4_000, 16)).astype(np.uint8)
    for asked in (boards, random):
        (moves,) = session.run(["move"], {"boards": asked})
        decided = best_moves(unpacked.action_values(pack(asked))) >= 0
        np.testing.assert_array_equal(moves >= 0, decided)
        assert (points_lost(unpacked, asked[decided], moves[decided]) <= EQUAL_VALUE_POINTS).all()


def test_lanes_and_views_share_tables_which_are_unpacked_once(
    models: Path, boards: NDArray[np.uint8], tmp_path: Path
) -> None:
    model = (models / "small/1/model.onnx").read_bytes()
    without, tables = without_tables(model, None)
    packed = CompactTables.load(models / "small/1")
    entries = np.arange(packed.entries)
    found = tables[PAGES][entries + tables[PAGE_OFFSETS][entries // PAGE]]
    np.testing.assert_array_equal(found, (packed.values() / UNIT).astype(np.float16))
    kept = packed.values().reshape(-1, PAGE).any(axis=1)
    assert len(tables[PAGES]) == PAGE * (1 + kept.sum()) < packed.entries
    assert len(without) < len(model) - packed.nbytes
    assert without_tables(model, tmp_path)[1] is tables
    assert not list(tmp_path.iterdir())

    bare = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    moves, probabilities = bare.run(["move", "probabilities"], {"boards": boards[:64]})
    for threads in (1, 2):
        for lane in onnx_lanes(model, Layout("cpu", 64, lanes=2, threads=threads)):
            answers = lane.run(boards[:64])
            np.testing.assert_array_equal(answers.moves, moves)
            np.testing.assert_array_equal(answers.probabilities, probabilities)
    views = ViewsSession(model, Layout("cpu", 64, lanes=1), {}, 300.0).run(boards[:64])
    assert views.shape == (64, 8, 4)


def test_a_version_with_other_constants_of_the_same_names_gets_a_graph_for_moves_alone(
    models: Path, trained: Path, boards: NDArray[np.uint8], boards_file: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(models, tmp_path / "models")) / "small/1"
    model = onnx.load(folder / "model.onnx")
    (starts,) = (tensor for tensor in model.graph.initializer if tensor.name == "table_starts")
    by_view = np.tile(onnx.numpy_helper.to_array(starts), (32, 1))
    starts.CopyFrom(onnx.numpy_helper.from_array(by_view, starts.name))
    content = model.SerializeToString()
    (folder / "model.onnx").write_bytes(content)
    (folder / "moves.onnx").unlink()
    card = read_card(tmp_path / "models")
    card["precisions"]["fp32"] |= {"moves": None, "sha256": hashlib.sha256(content).hexdigest()}
    (folder / "card.json").write_text(json.dumps(card))

    flags = ("--boards", str(boards_file), "--max-megabytes", MEGABYTES, "--extend", "--version", "1")
    assert export(trained, tmp_path / "models", *flags) == 0
    moves = (folder / "moves.onnx").read_bytes()
    listed = read_card(tmp_path / "models")["precisions"]["fp32"]["moves"]
    assert listed == {"file": "moves.onnx", "sha256": hashlib.sha256(moves).hexdigest()}
    (lane,) = onnx_lanes(content, Layout("cpu", 64, lanes=1), moves=moves)
    alone, whole = lane.run(boards[:64], RequestedOutputs()), lane.run(boards[:64])
    np.testing.assert_array_equal(alone.moves, whole.moves)


def test_processes_share_tables_in_a_file(models: Path, tmp_path: Path) -> None:
    program = (
        "import hashlib, sys; from pathlib import Path\n"
        "from octofold_server.backends.onnx_tables import without_tables\n"
        "_, tables = without_tables(Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]))\n"
        "print(*[hashlib.sha256(table.data).hexdigest() for table in tables.values()])"
    )
    command = [sys.executable, "-c", program, str(models / "small/1/model.onnx"), str(tmp_path)]
    digests, made = [], set()
    for _ in range(2):
        digests.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
        (file,) = tmp_path.glob("*.tables")
        made.add((file.stat().st_ino, file.stat().st_mtime_ns))
    assert len(made) == 1  # the second process only reads it
    _, tables = without_tables((models / "small/1/model.onnx").read_bytes(), None)
    assert digests == [[hashlib.sha256(table.data).hexdigest() for table in tables.values()]] * 2


def test_the_published_model_is_a_player_and_a_judge(
    models: Path, unpacked: NTupleNetwork, boards: NDArray[np.uint8]
) -> None:
    player = NTuplePlayer(models / "small/1")
    np.testing.assert_array_equal(player.next_moves(boards), best_moves(unpacked.action_values(pack(boards))))
    np.testing.assert_allclose(player.action_values(boards), unpacked.action_values(pack(boards)))


def _copied(models: Path, folder: Path) -> Path:
    folder.mkdir()
    for file in (models / "small/1").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("model.onnx", lambda model: model[:-1] + b"?", r"model\.onnx: damaged; its SHA-256"),
        ("model.onnx", None, r"model\.onnx: No such file"),
        ("card.json", lambda card: card.replace(b'"offset": ', b'"offset": 99'), "exceed the model's"),
        ("card.json", lambda card: card.replace(b'"offset": ', b'"offset": -9'), "it must be at least 0"),
        ("card.json", lambda card: card.replace(b'"format": 2', b'"format": 1'), "must be 2, got 1"),
        ("card.json", lambda card: card.replace(b"        13\n", b"        10\n"), "15, in ascending order"),
    ],
)  # fmt: skip
def test_a_damaged_model_is_refused_with_the_name_of_the_file(
    models: Path, tmp_path: Path, file: str, change: Any, message: str
) -> None:
    folder = _copied(models, tmp_path / "damaged")
    content = (folder / file).read_bytes()
    if change is None:
        (folder / file).unlink()
    else:
        assert change(content) != content
        (folder / file).write_bytes(change(content))
    with pytest.raises(TableFileError, match=message) as refused:
        CompactTables.load(folder)
    assert "\n" not in str(refused.value)
