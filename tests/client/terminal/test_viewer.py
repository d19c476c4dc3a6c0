"""The viewer of replays: what keys are called, and what they do."""

from octofold_client.terminal.keyboard import keys_of
from octofold_client.terminal.viewer import SPEEDS, Cursor


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
