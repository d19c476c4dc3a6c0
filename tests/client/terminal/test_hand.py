"""A game by hand: keys, undo, and the drawing of the board."""

from dataclasses import replace

import numpy as np
import pytest
from octofold_client.contenders.judges import Advice
from octofold_client.terminal.hand import Hand, HandGame, draw, remark
from octofold_game import referee
from octofold_game.episodes import Episode, Episodes
from octofold_game.rules import LARGEST_EXPONENT
from rich.console import Console


def played(seed: int, game: int, keys: str) -> Hand:
    hand = Hand(HandGame.new(seed, game))
    for key in keys:
        hand.press(key)
    return hand


def finished(seed: int) -> Hand:
    hand = Hand(HandGame.new(seed, 0))
    while not hand.game.over:
        for key in "hjkl":
            hand.press(key)
    return hand


def drawn(hand: Hand, columns: int = 80, now: Advice | None = None, before: Advice | None = None) -> str:
    console = Console(width=columns, height=24, color_system=None, force_terminal=True)
    with console.capture() as capture:
        console.print(draw(hand, console, now, before, has_adviser=now is not None))
    return capture.get()


def test_a_game_by_hand_has_the_tiles_of_its_seed() -> None:
    episodes = Episodes(7, [3])
    hand = Hand(HandGame.new(7, 3))
    while len(episodes.running):
        move = int(episodes.legal[0].argmax())
        ended = episodes.step([move])
        hand.press(("up", "right", "down", "left")[move])
    assert hand.game.over
    assert hand.game.episode.moves == ended[0].moves
    assert hand.game.score == ended[0].score
    referee.verify(hand.game.episode)


def test_undo_takes_back_the_board_the_score_and_the_new_tile() -> None:
    hand = played(5, 0, "hjklhjkl")
    before = hand.game.episode
    assert before.score > 0
    hand.press("up" if hand.game.legal[0] else "right")
    hand.press("u")
    after = hand.game.episode
    assert (after.moves, after.score) == (before.moves, before.score)
    assert after.final_board.tolist() == before.final_board.tolist()
    for _ in range(len(before) + 1):
        hand.press("u")
    assert hand.game.episode.final_board.tolist() == before.start.tolist()
    assert hand.message == "there is no move to undo"


def test_an_illegal_move_changes_nothing_and_says_so() -> None:
    start = np.array([1, 0, 0, 0] + [0] * 8 + [2, 0, 0, 0], np.uint8)
    hand = Hand(HandGame(Episode(0, 1, LARGEST_EXPONENT, start, b"", 0, start)))
    hand.press("left")
    assert hand.message == "left is not possible; try another direction"
    assert hand.game.moves == 0
    hand.press("x")
    assert hand.message == ""


def test_the_screen_names_score_largest_tile_legal_moves_and_the_new_tile() -> None:
    hand = played(5, 0, "hjklhjkl")
    text = drawn(hand)
    assert f"score {hand.game.score}" in text
    assert f"largest tile {1 << hand.game.board.max()}" in text
    assert hand.game.new_cell is not None
    assert text.count(f"[{1 << hand.game.board[hand.game.new_cell]}]") == 1
    legal = text.split("legal:")[1].splitlines()[0]
    names = ("up", "right", "down", "left")
    assert [name in legal for name in names] == hand.game.legal.tolist()


@pytest.mark.parametrize("columns", [40, 80])
def test_board_hints_and_keys_fit_on_a_terminal(columns: int) -> None:
    hand = finished(2)
    hand.press("u")
    legal = hand.game.legal
    advice = Advice(
        "flagship version 1", int(legal.argmax()), legal / legal.sum(), "probability", np.full(4, 8)
    )
    before = replace(advice, values=np.array([0.1, 0.2, 0.3, 0.4]), choice=3)
    text = drawn(hand, columns, advice, before)
    rows = text.splitlines()
    assert len(rows) <= 24
    assert max(map(len, rows)) <= columns
    for name in ("up", "right", "down", "left"):
        assert any(name in row and "8/32" in row for row in rows)
    assert "its choice" in text
    assert "q: quit" in text
    assert drawn(hand, 30) == "The terminal needs 37 columns \nand 20 lines.\n"


def test_a_remark_has_the_worth_of_the_move_and_the_better_one() -> None:
    votes, shares = np.array([6, 1, 0, 1]), np.array([0.7, 0.2, 0.0, 0.1])
    advice = Advice("m", 0, shares, "probability", votes)
    assert remark(advice, 1) == "m prefers ↑ up 70.0% 6/8 to → right 20.0% 1/8"
    assert remark(advice, 0) == "m agrees with ↑ up 70.0% 6/8"
    assert remark(Advice("r", 0, None, "", None), 3) == "r prefers ↑ up to ← left"
    points = Advice("p", 2, np.array([10.0, 40.0, 350.0, 0.0]), "points", None)
    assert remark(points, 1) == "p prefers ↓ down 350.0 to → right 40.0"
