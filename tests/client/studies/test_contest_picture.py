"""The forest plot of a comparison: height and number of its rows."""

from pathlib import Path

import numpy as np
from octofold_client.evaluation.contest import Contest
from octofold_client.evaluation.result_folder import Conditions
from octofold_client.evaluation.sides import Side
from octofold_client.studies.pictures import comparison
from octofold_game.contract.results import Completeness


def league(players: int) -> Contest:
    generator = np.random.default_rng(1)
    return Contest.of(
        [
            Side(
                f"player {number}",
                Conditions(f"player {number}", "1", "fp32", None, 1),
                Path(f"{number}"),
                dict(enumerate(generator.integers(100, 200, 20).tolist())),
                Completeness(20, 20, 0, 0),
            )
            for number in range(players)
        ]
    )


def test_rows_are_equally_high_and_only_neighbors_are_shown_if_pairs_are_many() -> None:
    for players, pairs in ((3, 3), (8, 28), (50, 49)):
        figure = comparison(league(players))
        assert [len(axes.get_yticks()) for axes in figure.axes] == [players, pairs]
        figure.draw_without_rendering()
        heights = [axes.get_position().height / len(axes.get_yticks()) for axes in figure.axes]
        np.testing.assert_allclose(heights, heights[0], rtol=0.1)
