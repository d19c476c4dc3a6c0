"""`octofold move`: prints the next move for a board, or for each line of a file of boards."""

import sys
from argparse import Namespace

from octofold_game.rules import LARGEST_EXPONENT, MOVE_NAMES

from octofold_client.cli.arguments import Subcommands, add_model, add_servers, asked_for, servers
from octofold_client.cli.board_text import parse_board, parse_lines

BOARDS_A_CALL = 4096


def add(subcommands: "Subcommands") -> None:
    """Add the subcommand."""
    parser = subcommands.add_parser(
        "move",
        help="print the next move for a board, or for a file of boards",
        description="Prints the move for the board on the command line, or one line of CSV for each line of "
        "standard input (16 columns, separated by commas or spaces).",
    )
    parser.add_argument(
        "board",
        nargs="*",
        help="16 exponents, row by row: 0 is empty, 1 is tile 2, 2 is tile 4 ... (default: standard input)",
    )
    parser.add_argument(
        "--tiles", action="store_true", help="read tiles (0, 2, 4, 8 ...) instead of exponents"
    )
    add_servers(parser)
    add_model(parser)
    parser.set_defaults(run=move)


def move(options: Namespace) -> None:
    """Print the move for the board on the command line, or one line of CSV for each line of standard input.

    Raises:
        BoardTextError: a line is not a board.
        OctofoldError: a call failed.
    """
    one = parse_board(" ".join(options.board), tiles=options.tiles) if options.board else None
    with servers(options) as found:
        served = found.select(*asked_for(options.model, options.version))
        model, version = served.model, served.version.version
        if one is not None:
            answer = found.client.next_move(one, model=model, version=version)
            shares = zip(MOVE_NAMES, answer.probabilities.tolist(), strict=True)
            print(f"{_name(answer.move)}  ({', '.join(f'{name} {share:.1%}' for name, share in shares)})")
            return
        if sys.stdin.isatty():
            print("Type boards of 16 columns, one per line; end with Ctrl-D.", file=sys.stderr)
        boards = parse_lines(
            sys.stdin, tiles=options.tiles, largest_exponent=served.largest_exponent or LARGEST_EXPONENT
        )
        print(",".join(("move", *MOVE_NAMES)))
        for start in range(0, len(boards), BOARDS_A_CALL):
            answers = found.client.next_moves(
                boards[start : start + BOARDS_A_CALL], model=model, version=version
            )
            assert answers.probabilities is not None
            for number, row in zip(answers.moves.tolist(), answers.probabilities.tolist(), strict=True):
                print(",".join((_name(number), *(f"{share:.4f}" for share in row))))


def _name(number: int) -> str:
    return "over" if number < 0 else MOVE_NAMES[number]
