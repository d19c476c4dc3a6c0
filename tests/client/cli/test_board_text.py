"""Boards are read from text, and errors name the text that is not a board."""

import numpy as np
import pytest
from octofold_client.cli.move import BoardTextError, parse_board, parse_lines

BOARD = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
ROWS = [BOARD[start : start + 4] for start in range(0, 16, 4)]


def test_tiles_become_exponents() -> None:
    assert parse_board(" ".join(str(1 << cell if cell else 0) for cell in BOARD), tiles=True) == BOARD


def test_empty_input_has_no_boards() -> None:
    assert parse_lines([]).shape == (0, 16)


@pytest.mark.parametrize(
    ("text", "tiles", "message"),
    [
        ("1 2 3", False, "a board has 16 cells, got 3"),
        ("0 0 0 0 0 0 0 x 0 0 0 0 0 0 0 0", False, "row 2, column 4: 'x' is not an exponent"),
        ("0 0 0 0 0 0 0 -1 0 0 0 0 0 0 0 0", False, "row 2, column 4: '-1' is not an exponent"),
        ("0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1.5", False, "row 4, column 4: '1.5' is not an exponent"),
        ("0 16 0 0 0 0 0 0 0 0 0 0 0 0 0 0", False, "row 1, column 2: 16 is above the largest exponent, 15"),
        ("0 0 1024 0 0 0 0 0 0 0 0 0 0 0 0 0", False, "row 1, column 3: 1024 is above .*use --tiles"),
        ("0 0 24 0 0 0 0 0 0 0 0 0 0 0 0 0", True, "row 1, column 3: 24 is not a tile"),
        ("0 0 65536 0 0 0 0 0 0 0 0 0 0 0 0 0", True, "row 1, column 3: 65536 .* largest tile, 32768"),
        (f"{'9' * 5000} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0", False, "row 1, column 1: 9+ is above"),
    ],
)
def test_the_first_bad_cell_is_named_with_its_line(text: str, tiles: bool, message: str) -> None:
    good = " ".join("0" for _ in range(16))
    with pytest.raises(BoardTextError, match=f"^line 2[:,] {message}"):
        parse_lines([good, text, "also bad"], tiles=tiles, largest_exponent=15)


@pytest.mark.parametrize(
    "text",
    [
        str(ROWS),
        str(np.array(ROWS)),
        "/".join(" ".join(map(str, row)) for row in ROWS),
        "[" + "".join(" ".join(map(str, row)) + " ; " for row in ROWS) + "] ;\r\n",
        "\n".join(",".join(map(str, row)) for row in ROWS),
        "\ufeff" + "\r\n".join(";".join(f'"{cell}"' for cell in row) for row in ROWS),
    ],
)
def test_four_rows_of_four_are_a_board(text: str) -> None:
    assert parse_board(text) == BOARD
    assert parse_lines([*text.splitlines(), "\n", *text.splitlines()]).tolist() == [BOARD, BOARD]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1 2 3 4", "5 6 7 8"], "lines 1 to 2: a board needs four lines of 4 cells, but the input ends"),
        (["1 2 3 4", "0 " * 16], "line 1: a board needs four lines of 4 cells, but line 2 has 16"),
        (["", "0 0 0 0", "0 0 0 0", "0 x 0 0", "0 0 0 0"], "lines 2 to 5, row 3, column 2: 'x' is not"),
        (
            ["a;b;c;d", "1;0;0;0", "2;3;0;0", "0;0;0;0", "0;0;0;0"],
            "lines 1 to 4, row 1, column 1: 'a'",
        ),
    ],
)
def test_rows_that_do_not_form_a_board_are_named(lines: list[str], message: str) -> None:
    with pytest.raises(BoardTextError, match=message):
        parse_lines(lines)
