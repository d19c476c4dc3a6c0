"""The progress display: what it counts, how it guesses, and its two forms."""

import io

import numpy as np
import pytest
from octofold_client.evaluation.summary import GameSummary
from octofold_client.terminal.progress import LiveProgress, PlainProgress, moves_left, progress_on
from rich.console import Console


def finished(game: int, score: int, tile: int) -> GameSummary:
    return GameSummary(game=game, score=score, largest_tile=tile, moves=100, outgrown=False)


def test_earlier_games_count_as_done_and_enter_the_average() -> None:
    progress = PlainProgress(10, Console(file=io.StringIO()))
    assert progress.average is None
    progress.resume([finished(0, 1000, 128)])
    progress.update(moves=2, running=2, best_tile=64, finished=[finished(1, 3000, 256)])
    assert (progress.done, progress.average, progress.best_tile, progress.running) == (2, 2000, 256, 2)


def test_a_best_tile_is_not_forgotten() -> None:
    progress = PlainProgress(10, Console(file=io.StringIO()))
    progress.update(moves=1, running=1, best_tile=512, finished=[])
    progress.update(moves=1, running=1, best_tile=8, finished=[])
    assert progress.best_tile == 512


@pytest.mark.parametrize("share_done", [0.1, 0.5, 0.9])
def test_the_moves_left_are_guessed_within_a_factor_of_three(share_done: float) -> None:
    lengths = np.sort(np.random.default_rng(1).normal(3000, 1200, 100).clip(100))
    now = np.quantile(lengths, share_done)
    done, running = lengths[lengths <= now], lengths[lengths > now]
    guess = moves_left(len(done), int((done**2).sum()), len(running), int(now * len(running)), 0)
    assert 1 / 3 < guess / (running - now).sum() < 3


def test_waiting_games_take_an_average_each() -> None:
    assert moves_left(4, 4 * 100**2, 0, 0, 10) == pytest.approx(10 * 100 * np.sqrt(np.pi / 4))


def test_a_pipe_gets_whole_lines_without_escapes() -> None:
    pipe = io.StringIO()
    progress = progress_on(Console(file=pipe), 10, "cnn5")
    assert isinstance(progress, PlainProgress)
    progress.resume([finished(game, 1000, 256) for game in range(4)])
    progress.show()
    assert pipe.getvalue() == "4/10 games done, 0 running, 0 moves/s, best tile 256, average 1,000\n"


def test_a_terminal_gets_a_display_that_leaves_nothing_behind() -> None:
    screen = io.StringIO()
    progress = progress_on(Console(file=screen, force_terminal=True, width=100), 10, "cnn5 version 1")
    assert isinstance(progress, LiveProgress)
    with progress:
        progress.update(moves=5, running=5, best_tile=1024, finished=[finished(0, 5000, 1024)])
    assert "cnn5 version 1" in screen.getvalue()
    assert "1/10 games" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")  # the last thing it does is to erase its last line
