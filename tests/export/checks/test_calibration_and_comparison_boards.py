"""Boards are recorded from a player's own games or read from a file."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_export.checks.calibration_and_comparison_boards import (
    FEWEST_BOARDS,
    boards_from_games,
    read_boards,
)
from octofold_export.checks.folded_graph import FoldedGraph
from octofold_export.errors import ExportError
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import head
from octofold_export.handmade.layers import float32_network
from octofold_export.handmade.weights import NetworkWeights
from octofold_export.sources.octofold_checkpoint import one_hot_description
from octofold_game.rules import legal_moves
from support.one_kind import of_one_kind

"""Which boards are recorded does not depend on the kind of network."""

POLICY = one_hot_description(16)


@pytest.fixture(scope="module")
def player(network: NetworkWeights) -> FoldedGraph:
    return FoldedGraph(fold(head(POLICY, float32_network(network)), "mean", 1))


@of_one_kind
def test_recorded_boards_are_different_unfinished_and_from_all_stages(player: FoldedGraph) -> None:
    lines: list[str] = []
    boards = boards_from_games(player, 3_000, 15, seed=1, report=lines.append)
    assert boards.shape == (3_000, 16)
    assert len(np.unique(boards, axis=0)) == 3_000
    assert legal_moves(boards).any(axis=1).all()
    sums = (1 << boards.astype(int)).sum(axis=1) - (boards == 0).sum(axis=1)
    assert sums.min() < 20
    assert sums.max() > 150
    assert lines[-1].endswith("different boards")


@of_one_kind
def test_games_that_end_at_once_are_not_played_forever(player: FoldedGraph) -> None:
    boards = boards_from_games(player, 20_000, 2, seed=1, report=lambda _: None)
    assert FEWEST_BOARDS < len(boards) < 20_000
    assert boards.max() == 2


def test_a_file_gives_its_boards_without_finished_games(boards: NDArray[np.uint8], tmp_path: Path) -> None:
    finished = np.array([[1, 2, 1, 2, 2, 1, 2, 1] * 2], np.int64)
    np.save(tmp_path / "boards.npy", np.concatenate([finished, boards]))
    read = read_boards(tmp_path / "boards.npy", 15)
    assert sorted(map(bytes, read)) == sorted(map(bytes, boards))
    assert read.dtype == np.uint8


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (np.zeros((300, 4, 5), np.uint8), r"got \[300, 4, 5\]"),
        (np.full((300, 16), 16, np.uint8), "board 0, cell 0: exponent 16"),
        (np.eye(16, dtype=np.uint8), f"must have at least {FEWEST_BOARDS} boards"),
        (np.array(["up"], dtype=object), "not an .npy file"),
        (
            b"\x93NUMPY\1\0\x46\0{'descr': '|u1', 'fortran_order': False, 'shape': (10**14, 16)}".ljust(80),
            "not an .npy",
        ),
    ],
)
def test_a_file_with_other_content_is_refused_by_name(
    tmp_path: Path, content: bytes | NDArray[np.generic] | None, message: str
) -> None:
    file = tmp_path / "boards.npy"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        np.save(file, content)
    with pytest.raises(ExportError, match=message) as raised:
        read_boards(file, 15)
    assert str(raised.value).startswith(f"{file}: ")
