"""`live.json` of a running evaluation: its content, its updates, and its last state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from octofold_client.evaluation.live_file import MAX_BOARDS, LiveFile
from octofold_client.evaluation.playing import PlayedBatch
from octofold_game.contract.results import LIVE_FILE
from octofold_game.episodes import Episodes


def read(folder: Path) -> Any:
    return json.loads((folder / LIVE_FILE).read_text())


def test_the_file_follows_the_games_and_ends_without_running_ones(tmp_path: Path) -> None:
    episodes = Episodes(3, range(40))
    clock = [0.0]
    with LiveFile(tmp_path, "corner", 3, 50, clock=lambda: clock[0]) as live:
        live.resume(10)
        for step in range(1, 5):
            clock[0] = step * 0.3
            episodes.step(episodes.legal.argmax(axis=1))
            live.update(PlayedBatch(40, [], 40, 4, lambda: None, 0, 0, episodes.unfinished))  # type: ignore[arg-type, return-value]
            if step == 1:
                first = episodes.boards.tolist()
        shown = read(tmp_path)
        assert (shown["player"], shown["seed"], shown["games"], shown["finished"]) == ("corner", 3, 50, 10)
        assert [each["game"] for each in shown["boards"]] == list(range(MAX_BOARDS))
        # Updates at 0.6 and 1.2 seconds would be too soon after those at 0.3 and 0.9.
        assert shown["boards"][0]["moves"] == 3
        assert shown["boards"][0]["board"] != first[0]
        assert len(shown["running_scores"]) == 40
        largest = [int(episode.final_board.max()) for episode in episodes.unfinished()]
        assert all(said <= now for said, now in zip(shown["running_exponents"], largest, strict=True))
        assert set(shown["running_exponents"]) <= {1, 2, 3, 4}
        assert shown["moves_per_second"] > 0
    assert read(tmp_path)["boards"] == read(tmp_path)["running_scores"] == []


def test_an_evaluation_that_never_began_does_not_change_the_file_of_another(tmp_path: Path) -> None:
    (tmp_path / LIVE_FILE).write_text('{"player": "another"}')
    with LiveFile(tmp_path, "corner", 3, 50):
        pass
    assert read(tmp_path) == {"player": "another"}
