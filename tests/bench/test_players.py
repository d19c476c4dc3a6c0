"""`bench/strength/players.py` plays the games that it says, and goes on where it was stopped."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from octofold_game.referee import verify
from octofold_game.replays import read_replays

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
SLOW = "montecarlo:runs=3"


def command(*flags: str | Path) -> list[str]:
    return [sys.executable, str(ROOT / "bench" / "strength" / "players.py"), *map(str, flags)]


def measured(spec: str, games: int, folder: Path, *flags: str) -> dict[str, Any]:
    """The row of a player, from the last line of the benchmark."""
    done = subprocess.run(
        command("--player", spec, "--games", str(games), "--keep", folder, *flags),
        capture_output=True,
        text=True,
        check=True,
    )
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["players"][spec]
    return row


def games_of(folder: Path) -> dict[int, bytes]:
    """The moves of the games that were kept, each checked by the rules."""
    (file,) = folder.glob("*.replay")
    episodes = list(read_replays(file))
    for episode in episodes:
        verify(episode)
    return {episode.game: episode.moves for episode in episodes}


def test_games_that_were_kept_are_those_of_one_go(tmp_path: Path) -> None:
    measured("random", 2, tmp_path / "parts")
    row = measured("random", 6, tmp_path / "parts")
    assert measured("random", 6, tmp_path / "whole")["average"] == row["average"]
    assert games_of(tmp_path / "parts") == games_of(tmp_path / "whole")
    assert sorted(games_of(tmp_path / "whole")) == [0, 1, 2, 3, 4, 5]


def test_a_run_that_is_stopped_goes_on_in_the_middle_of_its_games(tmp_path: Path) -> None:
    short = ("--until", "256")
    flags = command(
        "--player", SLOW, "--games", "12", "--parallel", "4", "--keep", tmp_path / "parts", *short
    )
    with subprocess.Popen(flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        lines = iter(running.stderr.readline, "")
        assert any("1 of 12" in line for line in lines)
        running.send_signal(signal.SIGTERM)
        running.communicate()
    assert 0 < len(games_of(tmp_path / "parts")) < 12
    (unfinished,) = (tmp_path / "parts").glob("*.unfinished")
    begun = {episode.game: episode.moves for episode in read_replays(unfinished)}
    assert any(begun.values())
    measured(SLOW, 12, tmp_path / "parts", "--parallel", "4", *short)
    measured(SLOW, 12, tmp_path / "whole", *short)
    games = games_of(tmp_path / "parts")
    assert games == games_of(tmp_path / "whole")
    assert all(games[game].startswith(moves) for game, moves in begun.items())


def test_games_end_with_the_tile_that_is_asked_for(tmp_path: Path) -> None:
    row = measured("random", 8, tmp_path, "--until", "32")
    assert [(each["tile"], each["games"]) for each in row["largest_tiles"]] == [(32, 8)]
