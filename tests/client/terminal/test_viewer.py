"""The viewer of replays: what keys are called, and what they do."""

import numpy as np
import pytest
from octofold_client.contenders.advice import Advice
from octofold_client.terminal.boards import Look
from octofold_client.terminal.keyboard import keys_of
from octofold_client.terminal.viewer import SPEEDS, Cursor, draw
from octofold_game.episodes import Episodes
from octofold_game.trajectories import Walk
from rich.console import Console


def test_keys_have_names_however_the_terminal_spells_them() -> None:
    assert keys_of(b"q\x1b[C\x1bOD\x1b[5~ 12\n\x1b[F") == [
        "q", "right", "left", "page up", " ", "1", "2", "\n", "end",
    ]  # fmt: skip


def test_no_key_leads_out_of_the_game() -> None:
    cursor = Cursor(last=30)
    for key in ["left", "page up", *"99999999999999999999", "\n"]:
        cursor.press(key)
        assert 0 <= cursor.at <= 30
    assert cursor.at == 30
    cursor.press(" ")
    assert not cursor.playing
    for _ in range(20):
        cursor.press("+")
    assert cursor.speed == len(SPEEDS) - 1


def test_a_jump_is_given_up_by_any_other_key() -> None:
    cursor = Cursor(last=30)
    for key in ["1", "2", "right", "\n"]:
        cursor.press(key)
    assert cursor.at == 1


def test_a_search_and_the_wish_for_another_game_end_with_the_next_key() -> None:
    cursor = Cursor(last=30, at=7)
    for key, wanted in [("d", (1, 0)), ("G", (0, -1)), ("D", (-1, 0)), ("x", (0, 0))]:
        cursor.press(key)
        assert (cursor.seeking, cursor.other_game) == wanted
        assert cursor.at == 7


@pytest.mark.parametrize("lines", [7, 10, 12, 15, 24, 40])
@pytest.mark.parametrize("columns", [29, 40, 60, 77, 78, 80, 120])
def test_the_screen_fits_and_cells_keep_their_borders(columns: int, lines: int) -> None:
    (game,) = Episodes(4, [0]).unfinished()
    board = np.array([17, 16, 15, 14, *[1] * 12], np.uint8)
    walk = Walk(np.stack([board, game.start]), np.array([345_678, 345_678]), np.array([1], np.uint8))
    values = np.array([1e6, 2e6, 3e6, -np.inf])
    advice = Advice("a player with a name that needs more than one line", 2, values, "points", None)
    console = Console(width=columns, height=lines, color_system=None, force_terminal=True)
    cursor = Cursor(last=20_123)
    with console.capture() as capture:
        console.print(draw("game 3 of seed 7, results/one", walk, cursor, advice, Look(columns, lines, None)))
    rows = capture.get().splitlines()
    assert len(rows) <= lines
    assert max(map(len, rows)) <= columns
    text = "\n".join(rows)
    assert all(tile in text for tile in ("131072", "65536", "32768", "16384"))
    assert "20,123" in text
    assert "q: quit" in text or lines == 7
    assert sum(row.count("│") == 5 for row in rows) >= 4
    if lines >= 12:
        assert "→" in text
        assert "000,000.0" in text
