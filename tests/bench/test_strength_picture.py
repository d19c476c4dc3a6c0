"""The picture of the README shows what the shipped models do."""

from pathlib import Path

import pytest
from support.benches import ROOT, figures_of


@pytest.mark.long
def test_most_views_in_the_picture_choose_the_models_move_and_some_do_not(tmp_path: Path) -> None:
    views = figures_of("strength_picture.py", "--out", tmp_path / "picture.png")
    votes = [views["choices"].count(move) for move in range(4)]
    assert votes.index(max(votes)) == views["move"]
    assert 4 < max(votes) < 8
    assert (tmp_path / "picture.png").stat().st_size < 150_000


def test_the_picture_is_small_and_in_the_readme() -> None:
    assert "](docs/strength.png)" in (ROOT / "README.md").read_text()
    assert (ROOT / "docs" / "strength.png").stat().st_size < 150_000
