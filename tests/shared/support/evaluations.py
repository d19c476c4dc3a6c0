"""Evaluations that a test interrupts and continues."""

import subprocess
from pathlib import Path

from octofold_game.replays import read_replays

from support.commands import octofold
from support.replays import Replays, replays_of
from support.waiting import Process, wait_for

GAMES = 12
OPTIONS = ["--seed", "11", "--parallel", "8"]
ENDLESS = [*OPTIONS, "--games", "1000000"]
"""Options for more games than any machine plays before a test interrupts it."""


def wait_for_games(folder: Path, process: Process) -> None:
    """Wait until some games are finished."""
    replays = folder / "games.replay"
    wait_for(lambda: replays.exists() and replays.stat().st_size > 400, process=process)


def evaluate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end in this folder."""
    return octofold("evaluate", *arguments, folder=folder, timeout=60)


def go_on(folder: Path, target: str) -> subprocess.CompletedProcess[str]:
    """Finish all games that an evaluation has begun in FOLDER/out, and at least `GAMES`."""
    games = max(GAMES, last_game_begun(folder / "out") + 1)
    done = evaluate(folder, *OPTIONS, "--games", str(games), "--target", target, "--out", "out")
    assert done.returncode == 0, done
    return done


def last_game_begun(results: Path) -> int:
    files = (results / name for name in ("games.replay", "unfinished.replay"))
    return max(episode.game for file in files if file.exists() for episode in read_replays(file))


def first_games(folder: Path) -> Replays:
    """Return the first `GAMES` games of a result folder."""
    return {game: replay for game, replay in replays_of(folder).items() if game < GAMES}
