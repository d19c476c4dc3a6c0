"""`octofold move`: prints the next move for a board, or for each board of a file.

Boards are sixteen exponents or tiles, in one line or in four lines of four. Spaces, commas, semicolons,
slashes and brackets separate the cells, so the formats of spreadsheets, numpy and JSON work.
"""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.commands.options import argument, option
from octofold_game.commands.subcommands import Command
from octofold_game.errors import OctofoldError
from octofold_game.rules import LARGEST_EXPONENT, MOVE_NAMES

from octofold_client.cli.shared_flags import JsonFlag, ModelFlags, ServerFlags, name_and_version, print_json
from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import UsageError
from octofold_client.rpc.client import Client

BOARDS_A_CALL = 4096
_SMALL = 0.01
"""Values below this limit, such as chances of success, are printed with two significant digits."""
_SEPARATORS = re.compile(r"[\s,;/\[\]\"\ufeff]+")
_TILES = frozenset(1 << exponent for exponent in range(1, LARGEST_EXPONENT + 1))


@dataclass(kw_only=True)
class Options(JsonFlag, ModelFlags, ServerFlags):
    """Options of `octofold move`."""

    board: list[str] = argument(
        "board",
        "16 exponents, row by row: 0 is empty, 1 is tile 2, 2 is tile 4 ... Slashes, semicolons, line ends "
        "or brackets may separate rows (default: read boards from standard input)",
        words="*",
    )
    tiles: bool = option(False, "read tiles (0, 2, 4, 8 ...) instead of exponents")
    value: bool = option(False, "also print the value of each board (needs a network with a value head)")


def move(options: Options) -> None:
    """Print the move for the board on the command line, or a line of CSV for each board of standard input.

    Raises:
        UsageError: the board on the command line is malformed, or the model does not value boards.
        BoardTextError: a line of standard input is not a board.
        OctofoldError: a call failed.
    """
    one = _parse_argument(options.board, options.tiles) if options.board else None
    requested = name_and_version(options.model, options.version)
    with options.servers() as found:
        served = found.select(*requested)
        if options.value and (served.is_player or not served.value_unit):
            raise UsageError(f"--value needs a network with a value head, but {served.title} has none")
        boards = np.array([one], np.uint8) if one is not None else _read_boards(options.tiles, served)
        answers = _answers(found.client, served, boards, options.value)
        if options.json:
            print_json(
                {
                    "model": served.model,
                    "version": served.version.version,
                    "moves": [_to_json(served, *answer) for answer in answers],
                }
            )
        elif one is not None:
            ((number, shares, value),) = answers
            tell = without_exponent if served.is_player else "{:.1%}".format
            named = zip(MOVE_NAMES, shares, strict=True)
            said = ", ".join(f"{name} {tell(share)}" for name, share in named if math.isfinite(share))
            unit = f" {served.value_unit}" if said and served.is_player else ""
            worth = "" if value is None else f"  value {without_exponent(value)}, unit: {served.value_unit}"
            print((f"{_move_name(number)}  ({said}{unit})" if said else _move_name(number)) + worth)
        else:
            print(",".join(("move", *MOVE_NAMES, *(["value"] if options.value else []))))
            for number, shares, value in answers:
                told = [_csv_value(share, served.is_player) for share in shares]
                print(",".join((_move_name(number), *told, *([] if value is None else [f"{value:.9g}"]))))


def without_exponent(value: float) -> str:
    """Format a value without scientific notation: it may be millions of points or a tiny chance."""
    if 0 < abs(value) < _SMALL:
        return np.format_float_positional(value, 2, fractional=False, trim="-")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4f}".rstrip("0").rstrip(".")


def _csv_value(share: float, is_value: bool) -> str:
    """Format a probability or, if `is_value`, a player's value of a move; empty for an illegal move."""
    if not math.isfinite(share):
        return ""
    return without_exponent(share) if is_value and abs(share) < _SMALL else f"{share:.4f}"


def _parse_argument(words: Sequence[str], tiles: bool) -> list[int]:
    if len(words) == 1 and Path(words[0]).is_file():
        raise UsageError(f"{words[0]} is a file, not a board: to read boards from it, use < {words[0]}")
    try:
        return parse_board(" ".join(words), tiles=tiles)
    except BoardTextError as error:
        raise UsageError(str(error)) from None


def _read_boards(tiles: bool, served: ServedModel) -> NDArray[np.uint8]:
    """Read the boards of standard input, `[N, 16]`."""
    if sys.stdin.isatty():
        print("Type boards of 16 columns, one per line; end with Ctrl-D.", file=sys.stderr)
    largest_exponent = served.largest_exponent or LARGEST_EXPONENT
    try:
        return parse_lines(sys.stdin, tiles=tiles, largest_exponent=largest_exponent)
    except UnicodeDecodeError as error:
        raise BoardTextError(
            f"standard input is not UTF-8 ({error}): save spreadsheets as CSV in UTF-8"
        ) from None


def _answers(
    client: Client, served: ServedModel, boards: NDArray[np.uint8], with_value: bool
) -> Iterator[tuple[int, list[float], float | None]]:
    """Yield each board's move, its four probabilities (or a player's four values of moves), and its value.

    The move is 0 to 3, or -1 if the game is over. The board's value is None unless `with_value`.
    """
    for start in range(0, len(boards), BOARDS_A_CALL):
        answers = client.next_moves(
            boards[start : start + BOARDS_A_CALL],
            model=served.model,
            version=served.version.version,
            with_value=with_value,
        )
        shares = answers.values if served.is_player else answers.probabilities
        if shares is None:
            shares = np.full((len(answers.moves), 4), -np.inf, np.float32)
        value = [None] * len(shares) if answers.value is None else answers.value.tolist()
        yield from zip(answers.moves.tolist(), shares.tolist(), value, strict=True)


def _to_json(served: ServedModel, number: int, shares: list[float], value: float | None) -> dict[str, Any]:
    told = [share if math.isfinite(share) else None for share in shares]
    return {
        "move": None if number < 0 else MOVE_NAMES[number],
        "values" if served.is_player else "probabilities": dict(zip(MOVE_NAMES, told, strict=True)),
        **({} if value is None else {"value": value}),
    }


def _move_name(number: int) -> str:
    return "over" if number < 0 else MOVE_NAMES[number]


class BoardTextError(OctofoldError, ValueError):
    """A text is not a board. The message names the line, or the row and the column, counted from 1."""


def parse_board(
    text: str, *, tiles: bool = False, largest_exponent: int = LARGEST_EXPONENT, where: str = "board"
) -> list[int]:
    """Return the 16 exponents of one board, row by row from the top left.

    Args:
        text: 16 numbers.
        tiles: whether the numbers are tiles (0, 2, 4, 8 ...) instead of exponents (0, 1, 2, 3 ...).
        largest_exponent: largest allowed exponent.
        where: start of error messages.

    Raises:
        BoardTextError: the text is not a board.
    """
    words = _cells(text)
    if len(words) != 16:
        raise BoardTextError(f"{where}: a board has 16 cells, got {len(words)}")
    parse_cell = _parse_tile if tiles else _parse_exponent
    return [
        parse_cell(word, largest_exponent, f"{where}, row {cell // 4 + 1}, column {cell % 4 + 1}")
        for cell, word in enumerate(words)
    ]


def parse_lines(
    lines: Iterable[str], *, tiles: bool = False, largest_exponent: int = LARGEST_EXPONENT
) -> NDArray[np.uint8]:
    """Return the boards in `lines` as `[N, 16] uint8`. A board is one line, or four lines of 4 cells.

    Lines without cells are skipped.

    Raises:
        BoardTextError: a line is not a board.
    """
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if _cells(line))
    boards = []
    for number, line in numbered:
        text, where = line, f"line {number}"
        for _ in range(3 if len(_cells(line)) == 4 else 0):
            last, more = next(numbered, (0, ""))
            if (cells := len(_cells(more))) != 4:
                found = f"line {last} has {cells}" if last else "the input ends"
                raise BoardTextError(f"{where}: a board needs four lines of 4 cells, but {found}")
            text, where = f"{text} {more}", f"lines {number} to {last}"
        boards.append(parse_board(text, tiles=tiles, largest_exponent=largest_exponent, where=where))
    return np.array(boards, np.uint8).reshape(-1, 16)


def _cells(text: str) -> list[str]:
    return [word for word in _SEPARATORS.split(text) if word]


def _parse_exponent(word: str, largest_exponent: int, where: str) -> int:
    value = _parse_number(word, "an exponent", where)
    if value > largest_exponent:
        hint = " (use --tiles if these are tiles)" if value in _TILES else ""
        raise BoardTextError(f"{where}: {word} is above the largest exponent, {largest_exponent}{hint}")
    return value


def _parse_tile(word: str, largest_exponent: int, where: str) -> int:
    value = _parse_number(word, "a tile", where)
    if value and value not in _TILES:
        raise BoardTextError(f"{where}: {word} is not a tile; tiles are 0, 2, 4, 8 and so on")
    exponent = value.bit_length() - 1 if value else 0
    if exponent > largest_exponent:
        raise BoardTextError(f"{where}: {word} is above the largest tile, {1 << largest_exponent}")
    return exponent


def _parse_number(word: str, kind: str, where: str) -> int:
    if not (word.isascii() and word.isdigit()):
        raise BoardTextError(f"{where}: {word!r} is not {kind}")
    # int() raises an error for thousands of digits; no cell needs more than six.
    return int(word) if len(word) <= 12 else 10**12


COMMAND = Command(
    "move",
    "print the next move for a board, or for a file of boards",
    "Prints the move for the board on the command line, or one line of CSV for each board of "
    "standard input. A board is one line of 16 columns or four lines of 4, separated by commas or spaces.",
    Options,
    move,
    examples=(
        "'0 1 1 2  0 3 3 4  4 7 1 2  0 10 9 1'",
        "--tiles 0,2,2,4,0,8,8,16,16,2,4,0,1024,512,2,2",
        "--model swift < boards.csv",
    ),
)
