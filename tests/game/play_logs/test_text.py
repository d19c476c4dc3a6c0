"""Lines of play logs are read in the published format, and every error is named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from octofold_game.episodes import Episode
from octofold_game.play_logs.moves import CellReadings, CheckedMoves, LoggedMoves
from octofold_game.play_logs.text import LONGEST_LINE, fault_of, format_moves, parse
from support.logged_moves import moves_of

PUBLISHED = b"r 13 5 5 2 14 8 3 1 12 9 1 0 11 10 0 1 : 3 15"
BOARD = [13, 5, 5, 2, 14, 8, 3, 1, 12, 9, 1, 0, 11, 10, 0, 1]


def test_the_published_line_is_read_as_its_authors_describe() -> None:
    moves, lines, bad = parse(PUBLISHED + b"\n")
    assert (moves.boards.tolist(), moves.moves.tolist(), moves.cells.tolist()) == ([BOARD], [3], [15])
    assert (lines.tolist(), bad) == ([0], [])
    assert CheckedMoves.of(moves).broken() == []


MOVES = st.tuples(
    st.lists(st.integers(0, 17), min_size=16, max_size=16), st.integers(0, 3), st.integers(0, 15)
)


@given(st.lists(MOVES, min_size=1, max_size=20))
def test_moves_are_read_as_they_were_written(logged: list[tuple[list[int], int, int]]) -> None:
    boards, made, cells = zip(*logged, strict=True)
    text = format_moves(
        LoggedMoves(np.array(boards, np.uint8), np.array(made, np.uint8), np.array(cells, np.uint8))
    )
    moves, lines, bad = parse(text)
    assert (moves.boards.tolist(), moves.moves.tolist(), moves.cells.tolist()) == (
        list(map(list, boards)),
        list(made),
        list(cells),
    )
    assert (lines.tolist(), bad) == (list(range(len(logged))), [])


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (PUBLISHED.replace(b"r", b"x"), "it begins with 'x', not with 'r'"),
        (PUBLISHED.replace(b" : 3 15", b""), "it must have 20 parts, got 17"),
        (PUBLISHED + b" 1", "it must have 20 parts, got 21"),
        (PUBLISHED.replace(b":", b";"), "a colon must follow the 16 exponents, got ';'"),
        (PUBLISHED.replace(b"14", b"18"), "exponent 5 is '18', not a number from 0 to 17"),
        (PUBLISHED.replace(b"14", b"-1"), "exponent 5 is '-1', not a number from 0 to 17"),
        (PUBLISHED.replace(b"14", b"1x"), "exponent 5 is '1x', not a number from 0 to 17"),
        (PUBLISHED.replace(b"14", b"269"), "exponent 5 is '269', not a number from 0 to 17"),
        (PUBLISHED.replace(b": 3", b": 4"), "the move is '4', not a number from 0 to 3"),
        (PUBLISHED.replace(b"3 15", b"3 16"), "the new tile's cell is '16', not a number from 0 to 15"),
        (PUBLISHED + b" " * LONGEST_LINE, "it is longer than 1,000 bytes"),
    ],
)
def test_a_bad_line_is_skipped_and_its_error_is_named(line: bytes, fault: str) -> None:
    moves, lines, bad = parse(b"\n".join([PUBLISHED, line, b"", PUBLISHED, b""]))
    assert len(moves) == 2
    assert lines.tolist() == [0, 3]
    assert bad == [(1, fault)]


TOKENS = st.sampled_from(
    ["r", ":", "0", "3", "9", "15", "17", "18", "07", "x", "-1", "²", "3:", "", "\t", "\r"]
)


@given(st.lists(st.lists(TOKENS, max_size=22) | st.just([*PUBLISHED.decode().split(), "\r"]), max_size=6))
def test_a_line_is_a_move_exactly_if_it_has_no_error(drawn: list[list[str]]) -> None:
    lines = [" ".join(tokens).encode() for tokens in drawn]
    moves, good, bad = parse(b"".join(line + b"\n" for line in lines) or b"\n")
    moves_in = [number for number, line in enumerate(lines) if line.split()]
    assert dict(bad) == {number: fault_of(lines[number]) for number in moves_in if fault_of(lines[number])}
    assert good.tolist() == [number for number in moves_in if not fault_of(lines[number])]
    assert len(moves) == len(good)


def test_moves_that_break_the_rules_are_named(played: LoggedMoves) -> None:
    assert CheckedMoves.of(played).broken() == []
    boards = np.array([BOARD, BOARD, [1, 2, 3, 4] * 4], np.uint8)
    checked = CheckedMoves.of(
        LoggedMoves(boards, np.array([3, 3, 1], np.uint8), np.array([15, 0, 0], np.uint8))
    )
    assert checked.broken() == [
        (1, "cell 0 is neither the new tile's nor the last placed tile's"),
        (2, "right does not change the board"),
    ]
    assert checked.illegal() == [(2, "right does not change the board")]


def test_the_last_field_is_read_as_the_new_or_the_last_placed_tile(episodes: list[Episode]) -> None:
    published = parse(PUBLISHED + b"\n")[0]
    readings = CellReadings()
    readings.add(CheckedMoves.of(published))
    assert readings == CellReadings(both=1), "the published example fits both descriptions"

    one_game = moves_of(episodes[0])
    last_placed = LoggedMoves(one_game.boards[1:], one_game.moves[1:], one_game.cells[:-1])
    checked = CheckedMoves.of(last_placed)
    assert checked.last.all()
    assert checked.broken() == []
    assert not checked.new.all()
