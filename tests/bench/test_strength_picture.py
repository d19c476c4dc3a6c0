"""The picture of the README: what it shows is what the models do."""

from pathlib import Path

import numpy as np
import onnxruntime
from octofold_game.model import BOARDS, MOVE
from strength_picture import BOARD, choices_of
from support.shipped import newest

ROOT = Path(__file__).parents[2]


def test_most_views_of_the_picture_choose_the_move_of_the_model_and_some_do_not() -> None:
    graph = newest("flagship") / "model.int8.onnx"
    board = np.array([int(digit, 16) for digit in BOARD], np.uint8)
    (move,) = onnxruntime.InferenceSession(graph).run([MOVE.name], {BOARDS.name: board[None]})
    votes = np.bincount(choices_of(graph, board), minlength=4)
    assert votes.argmax() == move[0]
    assert 4 < votes.max() < 8


def test_the_picture_is_small_and_in_the_readme() -> None:
    assert "](docs/strength.png)" in (ROOT / "README.md").read_text()
    assert (ROOT / "docs" / "strength.png").stat().st_size < 150_000
