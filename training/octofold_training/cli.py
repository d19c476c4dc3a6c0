"""`octofold-train`: the trainers on the command line.

    octofold-train teacher RECIPE    an n-tuple network that learns by self-play
    octofold-train student RECIPE    a network that learns the teacher's preferences
    octofold-train value RECIPE      a network that learns the values of afterstates
    octofold-train ppo RECIPE        a student that continues to learn from its own games
    octofold-train moves LOG ...     shuffles play logs for imitation learning
    octofold-train endgame           tables that know how to play around large tiles that keep still
    octofold-train table             every network of the published tables, trained on the same moves
    octofold-train imitation RECIPE  a network that learns the moves of play logs
    octofold-train dqn RECIPE        a network that learns the values of moves from its own games
    octofold-train lazyzero RECIPE   a network that learns what rollouts find in its own games

Every run keeps its state in a folder, and the same command continues it. This module defines the flags. It
imports neither torch nor numba, so `--help` is fast and works without them.
"""

from __future__ import annotations

import argparse
import math
import sys
from importlib.metadata import version
from pathlib import Path

from octofold_game.commands.command_line import Parser, whole_number
from octofold_game.commands.completion import add_completion

from octofold_training import commands
from octofold_training.published.rows import ROWS


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 for a failure, 130 after Ctrl-C or SIGTERM.

    Raises `SystemExit`: with code 0 after `--help`, with code 2 after one line on stderr for wrong usage.
    """
    parsed = parse(arguments)
    return commands.run(parsed)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the flags; exits as `main` does."""
    return _parser().parse_args(arguments)


_TRAINERS = {
    "teacher": ("an n-tuple network that learns by self-play", "teacher"),
    "student": ("a network that learns the teacher's preferences", "cnn5"),
    "value": ("a network that learns the values of afterstates", "value"),
    "ppo": ("a student that continues to learn from its own games", "swift-ppo"),
    "imitation": ("a network that learns the moves of play logs", "report-cnn5"),
    "dqn": ("a network that learns the values of moves from its own games", "dqn-simple"),
    "lazyzero": ("a network that learns what rollouts find in its own games", "lazyzero"),
}
"""What each command trains, and a recipe for it."""


def _parser() -> Parser:
    parser = Parser(prog="octofold-train", description="Train networks that play 2048.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('octofold')}")
    add_completion(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    trainers: dict[str, Parser] = {}
    for name, (trained, example) in _TRAINERS.items():
        trainers[name] = commands.add_parser(name, help=trained, description=f"Train {trained}.")
        _add_run(trainers[name], example)
    for name in ("student", "value"):
        trainers[name].add_argument(
            "--teacher",
            type=Path,
            default=Path("runs/teacher"),
            metavar="DIR",
            help="folder of the n-tuple network to learn from (default: runs/teacher)",
        )
    for name in ("student", "value", "ppo", "imitation", "dqn", "lazyzero"):
        trainers[name].add_argument(
            "--checkpoint",
            type=Path,
            metavar="DIR",
            help="folder for the trained network (default: checkpoints/NAME, with the recipe's name)",
        )
    for name in ("student", "value", "ppo", "imitation", "dqn", "lazyzero"):
        _add_device(trainers[name])
    trainers["imitation"].add_argument(
        "--moves",
        type=Path,
        default=Path("runs/moves"),
        metavar="DIR",
        help="folder of `octofold-train moves` (default: runs/moves)",
    )
    _add_moves(commands)
    _add_endgame(commands)
    _add_table(commands)
    return parser


def _add_run(command: Parser, example: str) -> None:
    """The flags of every run."""
    command.add_argument("recipe", type=Path, help=f"TOML file, such as training/recipes/{example}.toml")
    command.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        help="folder of the run (default: runs/NAME, with the recipe's name)",
    )
    _add_minutes(
        command,
        "stop after this many minutes of learning, not counting games before the run, games that show the "
        "strength, and saving",
    )


def _add_minutes(command: Parser, what: str) -> None:
    command.add_argument(
        "--minutes",
        type=_minutes,
        default=math.inf,
        metavar="M",
        help=f"{what}; the same command continues later (default: no limit)",
    )


def _add_device(command: Parser) -> None:
    command.add_argument(
        "--device",
        choices=["cpu", "cuda"],
        help="device for games, networks and updates (default: cuda if torch can use it, otherwise cpu)",
    )


def _add_moves(commands: argparse._SubParsersAction[Parser]) -> None:
    moves = commands.add_parser(
        "moves",
        help="shuffle play logs for imitation",
        description="Shuffle the moves of play logs into a new folder, from which `octofold-train imitation` "
        "reads them in little memory. Lines that are not moves, or moves that the rules do not allow, are "
        "printed and left out.",
    )
    moves.add_argument(
        "logs", type=Path, nargs="+", metavar="LOG", help="play log, or folder of `octofold record`"
    )
    moves.add_argument(
        "--out",
        type=Path,
        default=Path("runs/moves"),
        metavar="DIR",
        help="the new folder (default: runs/moves)",
    )
    moves.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="seed of the order (default: %(default)s)"
    )


def _add_endgame(commands: argparse._SubParsersAction[Parser]) -> None:
    endgame = commands.add_parser(
        "endgame",
        help="tables that know how to play beside large tiles in a corner",
        description="Solve the cells that are free beside large tiles in a corner: for every position, the "
        "best move and its chance to make the next large tile. The players `perimeter` and `ntuple` use "
        "these tables. The default tables take some minutes of a core, 3.2 GB of memory and 1.4 GB on disk. "
        "After Ctrl-C, the same command starts the unfinished table again.",
    )
    for name, tile, kept in (("five", 128, "five large tiles"), ("six", 1024, "six large tiles")):
        endgame.add_argument(
            f"--{name}",
            type=int,
            choices=[1 << exponent for exponent in range(5, 12)],
            default=tile,
            metavar="TILE",
            help=f"the largest tile to make beside {kept} (default: {tile}); twice the tile takes five to "
            "nine times the time and memory",
        )
    endgame.add_argument(
        "--out",
        dest="state",
        type=Path,
        default=Path("runs/endgame"),
        metavar="DIR",
        help="folder of the tables (default: runs/endgame)",
    )


def _add_table(commands: argparse._SubParsersAction[Parser]) -> None:
    table = commands.add_parser(
        "table",
        help="every network of the published tables, trained on the same moves",
        description="Train every network of the published tables of supervised networks on the same "
        "positions, let each play, and print its figures beside the published ones. All of them first learn "
        "from a million positions and play, then from two, four, eight and so on. After Ctrl-C or --minutes, "
        "the same command continues, with a larger --positions too.",
    )
    table.add_argument(
        "--positions",
        type=_count,
        required=True,
        metavar="N",
        help="positions that each network learns from, such as 5e6 (required)",
    )
    table.add_argument(
        "--moves",
        type=Path,
        default=Path("runs/moves"),
        metavar="DIR",
        help="folder of `octofold-train moves` (default: runs/moves)",
    )
    table.add_argument(
        "--out",
        dest="state",
        type=Path,
        default=Path("runs/table"),
        metavar="DIR",
        help="folder of the runs, the games and the tables (default: runs/table)",
    )
    table.add_argument(
        "--games",
        type=_count,
        default=1000,
        metavar="G",
        help="games that each network plays each way (default: %(default)s)",
    )
    table.add_argument(
        "--rows",
        nargs="+",
        choices=list(ROWS),
        metavar="NAME",
        help=f"only these networks of {', '.join(ROWS)} (default: all)",
    )
    _add_minutes(table, "stop after this many minutes")
    _add_device(table)


def _count(text: str) -> int:
    count = _number(text)
    if not (count >= 1 and count.is_integer()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(count)


def _seed(text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 0")
    return number


def _minutes(text: str) -> float:
    minutes = _number(text)
    if not minutes >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes")
    return minutes


def _number(text: str) -> float:
    """The number that the text says; nan, which no comparison accepts, if it says none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


if __name__ == "__main__":
    sys.exit(main())
