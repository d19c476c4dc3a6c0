"""Boards as spreadsheets save them: a byte order mark, semicolons or commas, quotes, empty cells."""

from __future__ import annotations

import pytest
from octofold_client.cli.board_text import BoardTextError, parse_lines

ROWS = [[1, 0, 0, 0], [2, 3, 0, 0], [0, 0, 0, 0], [4, 5, 6, 17]]
CELLS = [cell for row in ROWS for cell in row]


@pytest.mark.parametrize("separator", [";", ","])
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_board_in_one_row_or_in_four_is_read(separator: str, quote: str) -> None:
    def saved(cells: list[int]) -> str:
        return separator.join(f"{quote}{cell or ''}{quote}" for cell in cells) + "\r\n"

    assert parse_lines(["\ufeff" + saved(CELLS)]).tolist() == [CELLS]
    first, *others = map(saved, ROWS)
    assert parse_lines(["\ufeff" + first, *others]).tolist() == [CELLS]


def test_semicolons_still_end_rows() -> None:
    assert parse_lines(["1 0 0 0; 2 3 0 0; 0 0 0 0; 4 5 6 17"]).tolist() == [CELLS]


def test_a_row_of_titles_is_named() -> None:
    with pytest.raises(BoardTextError, match=r"line.* 1"):
        parse_lines(["a;b;c;d", "1;0;0;0", "2;3;0;0", "0;0;0;0"])
