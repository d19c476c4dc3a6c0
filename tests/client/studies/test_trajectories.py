"""Finished games stepped through again: scores move by move, and positions."""

from pathlib import Path

import pytest
from octofold_game.replays import read_replays
from octofold_game.trajectories import Climb, Walk, batched, scores_by_move


def test_the_climb_ends_at_the_scores_of_the_records(games: Path) -> None:
    episodes = list(read_replays(games / "games.replay"))
    last: dict[int, int] = {}
    for number, scores in enumerate(scores_by_move(episodes)):
        last.update(enumerate(scores.tolist()))
        assert len(scores) == sum(len(episode) > number for episode in episodes)
    ordered = sorted(episodes, key=len, reverse=True)
    assert list(last.values()) == [episode.score for episode in ordered]


def test_the_climb_does_not_depend_on_how_the_games_are_taken_in(games: Path) -> None:
    episodes = list(read_replays(games / "games.replay"))
    whole, parts = Climb(), Climb()
    whole.add(episodes)
    for batch in batched(iter(episodes), 7):
        parts.add(batch)
    assert (whole.running == parts.running).all()
    assert whole.average == pytest.approx(parts.average)
    assert whole.deviation == pytest.approx(parts.deviation, abs=1e-3)


def test_a_walk_ends_where_the_record_says(games: Path) -> None:
    for episode in read_replays(games / "games.replay"):
        walk = Walk.of(episode)
        assert walk.boards[0].tolist() == episode.start.tolist()
        assert walk.boards[-1].tolist() == episode.final_board.tolist()
        assert (len(walk.boards), walk.scores[-1]) == (len(episode) + 1, episode.score)
