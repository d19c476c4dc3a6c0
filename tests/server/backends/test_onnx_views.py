"""Each view's probabilities, from graphs with this output and graphs that get it appended."""

from __future__ import annotations

import numpy as np
import pytest
from octofold_game.rules import legal_moves
from octofold_game.symmetries import CELLS, MOVES
from octofold_server.backends.backend import Layout
from octofold_server.backends.onnx_session import new_session
from octofold_server.backends.onnx_views import NoViews, ViewsSession

LAYOUT = Layout("cpu", max_batch_size=1, lanes=1)
BOARDS = np.random.default_rng(3).integers(0, 9, (50, 16), dtype=np.uint8)


def test_the_views_of_a_graph_without_the_output_make_its_probabilities_and_votes(small_model: bytes) -> None:
    views = ViewsSession(small_model, LAYOUT, {}, 300.0).run(BOARDS)
    probabilities, votes = new_session(small_model, LAYOUT, {}).run(
        ["probabilities", "votes"], {"boards": BOARDS}
    )
    assert views.shape == (50, 8, 4)
    np.testing.assert_allclose(views.mean(axis=1), probabilities, atol=1e-6)
    favorites = views.argmax(axis=2)
    counted = np.stack([(favorites == move).sum(axis=1) for move in range(4)], axis=1)
    running = legal_moves(BOARDS).any(axis=1)
    np.testing.assert_array_equal(counted[running], votes[running])
    assert not views[~legal_moves(BOARDS)[:, None].repeat(8, axis=1)].any()


def test_view_s_of_a_board_is_the_first_view_of_the_turned_board(small_model: bytes) -> None:
    session = ViewsSession(small_model, LAYOUT, {}, 300.0)
    views = session.run(BOARDS)
    for symmetry in range(8):
        turned = session.run(BOARDS[:, CELLS[symmetry]])[:, 0]
        np.testing.assert_allclose(turned[:, MOVES[symmetry]], views[:, symmetry], atol=1e-5)


def test_a_graph_without_views_is_refused(graph: bytes) -> None:
    with pytest.raises(NoViews):
        ViewsSession(graph, LAYOUT, {}, 300.0)
