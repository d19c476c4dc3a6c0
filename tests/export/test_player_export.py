"""`octofold-export --player`: a local player becomes a version of the repository."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_export import player_export
from octofold_export.checks.calibration_and_comparison_boards import boards_from_games
from octofold_export.cli import main
from octofold_export.printing import Report
from octofold_game.contract.model import PLAYER_CARD_FORMAT, read_card
from octofold_game.player import Player
from octofold_players.endgame.formation import SIX
from octofold_players.endgame.solver import solve
from octofold_players.endgame.tables import save_table
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer
from octofold_players.perimeter.player import PerimeterPlayer

ANOTHER_KIND = """
from dataclasses import dataclass
from pathlib import Path
import numpy as np
from octofold_game.contract.searches import SearchResult
from octofold_game.rules import legal_moves

def moves(boards, order):
    legal = legal_moves(boards)[:, order]
    return np.where(legal.any(axis=1), np.array(order)[legal.argmax(axis=1)], -1).astype(np.int8)

@dataclass
class Ordered:
    order: Path
    salt: int = 0
    name: str = "ordered"
    sha256 = "0" * 64

    def next_moves(self, boards):
        return moves(boards, list(self.order.read_bytes()))

    def served_files(self):
        return {"order": self.order}

    @classmethod
    def served(cls, options, files, cores):
        return Search(files["order"].tolist() if not options.get("salt") else [0, 1, 2, 3])

class Search:
    value_unit = None
    largest_exponent = 17

    def __init__(self, order):
        self.order = order

    def prepare(self):
        pass

    def find(self, boards, limits):
        n = len(boards)
        return SearchResult(moves(boards, self.order), None, np.ones(n, np.uint8), np.ones(n, np.int64))
"""


@pytest.fixture(autouse=True, scope="module")
def _same_games() -> Iterator[None]:
    """Cache the games whose boards every export uses to check its player."""
    played: dict[tuple[int, ...], NDArray[np.uint8]] = {}

    def play_once(player: Player, count: int, largest: int, seed: int, report: Report) -> NDArray[np.uint8]:
        if (count, largest, seed) not in played:
            played[count, largest, seed] = boards_from_games(player, count, largest, seed, report)
        return played[count, largest, seed]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(player_export, "boards_from_games", play_once)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with endgame tables."""
    folder = tmp_path_factory.mktemp("tables")
    save_table(folder, SIX, 6, solve(SIX, 6))
    return folder


def published(models: Path, spec: str, *more: str) -> int:
    return main(["--player", spec, "--name", "mine", "--models", str(models), *more])


def contents(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.rglob("*"))


def test_a_player_without_files_is_published_as_a_card(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert published(tmp_path, "expectimax:depth=2,cutoff=0.001") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'mine' / '1'}\n"
    assert contents(tmp_path) == ["1", "README.md", "card.json", "mine"]
    card = read_card(tmp_path / "mine" / "1")
    assert card.format == PLAYER_CARD_FORMAT
    assert card.player is not None
    assert card.player.kind == "expectimax"
    assert card.player.options == {"depth": 2, "cutoff": 0.001}
    assert card.value_unit == "heuristic points"
    assert card.largest_exponent == 17
    assert card.checkpoint_sha256 == HeuristicExpectimaxPlayer(2, 0.001).sha256
    assert "depth 2" in (tmp_path / "mine" / "1" / "README.md").read_text()
    assert published(tmp_path, "expectimax:depth=1") == 0
    assert read_card(tmp_path / "mine" / "2").version == 2


def test_the_tables_of_a_player_are_published_with_their_digests(folder: Path, tmp_path: Path) -> None:
    assert published(tmp_path, f"perimeter:{folder}") == 0
    version = tmp_path / "mine" / "1"
    card = read_card(version)
    assert card.player is not None
    assert card.player.options == {}
    assert len(card.player.files) == 3
    for name, listed in card.player.files.items():
        assert name == listed.file
        assert hashlib.sha256((version / listed.file).read_bytes()).hexdigest() == listed.sha256
    assert card.checkpoint_sha256 == PerimeterPlayer(folder).sha256 == PerimeterPlayer(version).sha256


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ("expectimx", 2, "did you mean expectimax?"),
        ("expectimax:dpeth=2", 2, "did you mean depth?"),
        ("expectimax:depth=13", 1, "player expectimax:depth=13: depth must be from 1 to 12, got 13"),
        ("perimeter:nowhere", 1, "player perimeter:nowhere: nowhere: no endgame tables"),
        ("ntuple:models/ntuple", 1, "did you mean models/ntuple/4?"),
        ("montecarlo", 1, "player montecarlo cannot be published: its class lacks the method `served`"),
    ],
)
def test_a_spec_that_cannot_be_served_gives_a_one_line_error_and_no_file(
    spec: str, code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert published(tmp_path / "models", spec) == code
    error = capsys.readouterr().err
    assert error.startswith("octofold-export: ")
    assert message in error
    assert error.count("\n") == 1
    assert contents(tmp_path) == []


def test_a_kind_of_another_package_is_published_only_if_its_served_moves_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ordered_players.py").write_text(ANOTHER_KIND)
    described = tmp_path / "ordered_players-3.1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: ordered-players\nVersion: 3.1\n")
    (described / "entry_points.txt").write_text("[octofold.players]\nordered = ordered_players:Ordered\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "order").write_bytes(bytes([3, 0, 2, 1]))
    models = tmp_path / "models"
    assert published(models, f"ordered:{tmp_path / 'order'}") == 0
    assert (models / "mine" / "1" / "order").read_bytes() == bytes([3, 0, 2, 1])
    card = read_card(models / "mine" / "1")
    assert card.value_unit is None
    assert card.largest_exponent == 17
    capsys.readouterr()
    assert published(models, f"ordered:{tmp_path / 'order'},salt=1") == 1
    assert (
        "the served player and the local player make different moves on the board ["
        in capsys.readouterr().err
    )
    assert contents(models / "mine") == ["1", "README.md", "card.json", "order"]


def test_neither_torch_nor_onnx_is_needed(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['onnx'] = sys.modules['onnxruntime'] = None\n"
        "from octofold_export.cli import main\n"
        f"sys.exit(main(['--player', 'expectimax:depth=1', '--name', 'mine', '--models', {str(tmp_path)!r}]))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr
