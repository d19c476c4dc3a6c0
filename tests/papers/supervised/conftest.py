"""Moves from which the networks of small tables learn."""

import pytest
from octofold_papers.supervised.shards import ShuffledMoves
from support.published_tables import convert_games


@pytest.fixture(scope="module")
def moves(tmp_path_factory: pytest.TempPathFactory) -> ShuffledMoves:
    folder = tmp_path_factory.mktemp("moves")
    convert_games(folder, seed=3)
    return ShuffledMoves(folder / "converted")
