"""Exercises from mistakes, the editor of boards, and games saved as files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from octofold_game.drawing.board_text import board_text
from octofold_game.episodes import Episode
from octofold_game.trajectories import Trajectory
from PIL import Image
from playwright.sync_api import expect
from support.browsers import Visit
from support.page_server import Server, Visitor
from support.replays import corner_games, write_result


@pytest.fixture(scope="module")
def game(server: Server) -> Episode:
    """A result of one game on the server."""
    (found,) = corner_games(1)
    write_result(server.results / "single", [found])
    return found


def digits(board: Iterable[int]) -> str:
    return "".join("0123456789abcdefgh"[exponent] for exponent in board)


PLAY = "#play-board"


def exercise(board: str, better: int, costs: list[float | None] | None = None) -> dict[str, object]:
    return {
        "board": board,
        "better": better,
        "costs": costs,
        "costly": 900,
        "unit": "points",
        "judge": "j",
        "source": "a test",
    }


def with_notebook(visit: Visit, *exercises: dict[str, object]) -> None:
    content = json.dumps({"format": "octofold-notebook-1", "exercises": exercises})
    visit.run("(text) => localStorage.setItem('octofold.notebook', text)", content)
    visit.run("location.hash = '#practice'")
    said = visit.page.locator("#tab-practice .verdict")
    expect(said).to_have_text("From a test. Use the arrow keys, or swipe.")


def test_an_exercise_is_learned_when_it_is_solved_twice_in_a_row(go: Visitor) -> None:
    with go() as visit:
        with_notebook(visit, exercise("1100000000000000", 3, [None, 40.0, 5000.0, 0.0]))
        said = visit.page.locator("#tab-practice .verdict")
        progress = visit.page.locator(".practice-progress")
        visit.page.keyboard.press("ArrowDown")
        expect(said).to_have_text("Not down, which costs 5,000 points. j plays left.")
        visit.page.get_by_role("button", name="Next exercise").click()
        visit.page.keyboard.press("ArrowRight")  # hardly worse than the best move
        expect(said).to_have_text("Good enough: right costs only 40 points. j plays left.")
        expect(progress).to_contain_text("1 exercise, 0 learned")
        visit.page.keyboard.press("Enter")
        visit.page.keyboard.press("ArrowLeft")
        expect(said).to_have_text("Right. j plays left.")
        expect(progress).to_contain_text(
            "1 exercise, 1 learned (solved 2 times in a row), 67% of 3 tries solved."
        )
        visit.page.reload()
        expect(progress).to_contain_text("1 learned")


def test_cells_can_be_edited_turned_and_mirrored_and_undo_restores_the_game(go: Visitor) -> None:
    with go("/?board=1200000000000000") as visit:
        visit.page.get_by_role("button", name="Edit").click()
        visit.page.locator("#edit-tile").select_option("11")
        visit.page.get_by_role("button", name="row 4, column 4: empty").click()
        assert digits(visit.board(PLAY)) == "120000000000000b"
        expect(visit.page.locator("#play-link")).to_have_attribute("href", "?board=120000000000000b")
        visit.page.get_by_role("button", name="Rotate").click()
        assert digits(visit.board(PLAY)) == "000100020000b000"
        visit.page.get_by_role("button", name="Mirror").click()
        assert digits(visit.board(PLAY)) == "100020000000000b"
        for before in ("000100020000b000", "120000000000000b", "1200000000000000"):
            visit.page.keyboard.press("u")
            assert digits(visit.board(PLAY)) == before
        expect(visit.page.locator("#play-undo")).to_be_disabled()
        visit.page.locator("#edit-tile").select_option(label="65536")
        visit.page.get_by_role("button", name="row 4, column 4: empty").click()
        said = visit.page.locator("#play-advice .verdict")
        expect(said).to_have_text("small supports tiles up to 32768, got 65536")
        expect(visit.page.locator("#play-advice .is-best, #play-advice .view")).to_have_count(0)


def test_a_game_is_saved_as_text_and_gif(go: Visitor, game: Episode, tmp_path: Path) -> None:
    walk = Trajectory.of(game)
    with go("/#replay/single") as visit:
        with visit.page.expect_download() as saving:
            visit.page.get_by_role("button", name="Save as text").click()
        saving.value.save_as(tmp_path / "game.txt")
        title, *blocks = (tmp_path / "game.txt").read_text().split("\n\n")
        assert title == "single, game 0"
        assert len(blocks) == len(walk.boards)
        for board, block in zip(walk.boards, blocks, strict=True):
            assert board_text(board) in block
        assert blocks[-1].splitlines()[1] == f"score {game.score:,}, the game is over"
        with visit.page.expect_download() as saving:
            visit.page.get_by_role("button", name="Save as GIF").click()
        saving.value.save_as(tmp_path / "game.gif")
    with Image.open(tmp_path / "game.gif") as gif:
        assert gif.n_frames == len(walk.boards)  # type: ignore[attr-defined]
        for frame in (0, 40, len(walk.boards) - 1):
            gif.seek(frame)
            picture = np.asarray(gif.convert("RGB")).astype(int)
            cells = [
                picture[8 + 38 + 6 + row * 70 + 5, 8 + 6 + column * 70 + 5]
                for row in range(4)
                for column in range(4)
            ]
            kinds = {
                tuple(color): exponent
                for color, exponent in zip(map(tuple, cells), walk.boards[frame], strict=True)
            }
            assert all(
                kinds[tuple(color)] == exponent
                for color, exponent in zip(cells, walk.boards[frame], strict=True)
            )
