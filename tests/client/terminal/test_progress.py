"""The progress display: its counts, its forecasts, and its two forms."""

import io
import itertools

import numpy as np
import pytest
from octofold_client.evaluation.playing import PlayedBatch, RunningGames
from octofold_client.evaluation.summary import GameSummary
from octofold_client.terminal.display import LiveDisplay, PlainDisplay, display_on
from octofold_client.terminal.progress import EvaluationProgress, progress_on
from rich.console import Console


def finished(game: int, score: int, tile: int, moves: int = 100) -> GameSummary:
    return GameSummary(game=game, score=score, largest_tile=tile, moves=moves, outgrown=False)


def step(moves: int = 1, best_tile: int = 8, scores: tuple[int, ...] = (), length: int = 50) -> PlayedBatch:
    running_games = RunningGames(np.full(len(scores), length, np.int64), np.array(scores, np.int64))
    return PlayedBatch(moves, [], len(scores), best_tile, lambda: running_games, 0, 0)


def plain(games: int = 10) -> EvaluationProgress:
    """Return progress on a plain display; a simulated clock advances by a minute at each look."""
    clock = itertools.count(0.0, 60.0).__next__
    return EvaluationProgress(games, "cnn5", PlainDisplay(Console(file=io.StringIO()), clock), clock)


def test_games_of_earlier_runs_count_as_finished_and_in_the_average() -> None:
    progress = plain()
    before = progress.average_at_least
    assert before is None
    progress.resume([finished(0, 1000, 128)])
    progress.update(step(moves=2, best_tile=64), [finished(1, 3000, 256)])
    assert (progress.done, progress.average_at_least, progress.best_tile) == (2, 2000, 256)


def test_the_average_counts_running_games_with_their_current_score() -> None:
    # The two finished games are the short ones: their average, 9,034, would be far too low.
    progress = plain()
    progress.update(step(scores=(60_000,) * 8), [finished(0, 8_000, 512), finished(1, 10_068, 512)])
    assert progress.average_at_least == pytest.approx((18_068 + 8 * 60_000) / 10)
    assert progress.average_so_far == "average at least 49,807"
    progress.update(step(), [finished(number, 70_000, 4096) for number in range(2, 10)])
    assert progress.average_so_far == f"average {(18_068 + 8 * 70_000) / 10:,.0f}"


def test_the_display_does_not_promise_that_a_few_long_games_end_soon() -> None:
    # 97 of 100 games have ended by move 1,000; the others have made 5,000 moves.
    progress = plain(100)
    lengths = np.random.default_rng(1).normal(700, 150, 97).astype(int)
    games = [finished(number, 5_000, 512, int(moves)) for number, moves in enumerate(lengths)]
    progress.update(step(moves=3600, scores=(90_000,) * 3, length=5_000), games)
    assert progress.moves_per_second == 30
    assert int(progress.time_left.split()[1]) > 20


def test_a_pipe_gets_plain_lines_and_the_first_reports_games_of_earlier_runs() -> None:
    pipe = io.StringIO()
    display = display_on(Console(file=pipe))
    assert isinstance(display, PlainDisplay)
    progress = progress_on(10, "cnn5", Console(file=pipe))
    progress.resume([finished(game, 1000, 256) for game in range(4)])
    display.show(progress.status)
    assert pipe.getvalue() == (
        "4 games already finished in earlier runs\n"
        "cnn5: 4/10 games done, 0 running, 0 moves/s, best tile 256, average at least 1,000\n"
    )


def test_the_display_on_a_terminal_erases_itself() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    assert isinstance(display_on(console), LiveDisplay)
    with progress_on(10, "cnn5 version 1", console) as progress:
        progress.update(step(moves=5, best_tile=1024, scores=(3000,) * 5), [finished(0, 5000, 1024)])
    assert "cnn5 version 1" in screen.getvalue()
    assert "1/10 games" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")  # its last output erases its last line
