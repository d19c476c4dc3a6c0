"""Parts that `octofold-train` and `octofold-papers` share: options, training commands and exit codes.

A subcommand imports only what it needs. So `--help` is fast and works without torch and numba.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from octofold_game.commands.extras import install_command
from octofold_game.commands.options import Folder, Kind, number, option
from octofold_game.commands.signals import handling
from octofold_game.commands.subcommands import Command, parse, parser_of
from octofold_game.errors import OctofoldError

from octofold_training.errors import is_out_of_memory


def _count(text: str) -> int:
    count = float(text)
    if not (count >= 1 and count.is_integer()):
        raise ValueError
    return int(count)


CONTINUES = "; the same command continues later (default: no limit)"
Count = Annotated[int, Kind(_count, "a whole number from 1", "N", is_plain=True)]
Minutes = Annotated[float, Kind(number(0, math.inf).parse, "a number of minutes, from 0", "M", is_plain=True)]
Device = Literal["cpu", "cuda"]


@dataclass
class RunFlags:
    """Options of every command that trains. Folders without a flag are named after the recipe."""

    recipe: Path = option(
        None, "TOML file with the network and the options of its training", metavar="recipe", is_argument=True
    )
    keys: bool = option(False, "print every key of a recipe with its default and exit")
    state: Folder = option(None, "folder of the run (default: runs/NAME, with the recipe's name)")
    minutes: Minutes = option(
        math.inf,
        "stop after this many minutes of learning, excluding warm-up games, strength estimates and "
        f"saving{CONTINUES}",
    )


@dataclass
class NetworkFlags(RunFlags):
    """Options of every command that trains a neural network."""

    checkpoint: Folder = option(
        None, "folder for the trained network (default: checkpoints/NAME, with the recipe's name)"
    )
    device: Device | None = option(
        None, "device for games, networks and updates (default: cuda if torch can use it, otherwise cpu)"
    )


def imported(module: str, function: str, *arguments: Any) -> Callable[[Any], int | None]:
    """Return a function that imports `module` and calls its `function`.

    The arguments of the call are `arguments`, followed by the options of the command.
    """

    def run(options: Any) -> int | None:
        code: int | None = getattr(import_module(module), function)(*arguments, options)
        return code

    return run


def training_commands(module: str, trained: Mapping[str, tuple[str, type[RunFlags]]]) -> list[Command]:
    """Return commands that call `train(name, flags)` of a module.

    `trained` maps the name of each command to its help line and its options.
    """
    return [
        Command(name, line, f"{line[0].upper()}{line[1:]}.", flags, imported(module, "train", name))
        for name, (line, flags) in trained.items()
    ]


def run_program(
    program: str,
    description: str,
    commands: Sequence[Command],
    extras: Mapping[str, str],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run a subcommand. Return 0 for success, 1 for a failure, 130 after Ctrl-C, SIGTERM or SIGHUP.

    Args:
        program: the name of the program.
        description: the description in its help.
        commands: the subcommands.
        extras: the extra that each subcommand needs, by the subcommand's name; by default, `training`.
        arguments: the arguments of the command line; defaults to those of this process.

    Raises `SystemExit`: with code 0 after `--help` or `--version`, with 2 after a line about wrong usage.
    """

    def fail(message: str, code: int = 1) -> int:
        print(f"{program}: {message}", file=sys.stderr)
        return code

    command, flags, own = parse(parser_of(program, description, commands, arguments), arguments)
    if isinstance(flags, RunFlags) and not (flags.recipe or flags.keys):
        own.fail("recipe is missing")
    # By default, OpenMP threads spin while they wait for the last thread of a loop. If other programs run,
    # spinning threads occupy the core that the last thread needs, and an update has many short loops. torch
    # reads the variable when it is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore SIGINT
    try:
        with handling(signal.default_int_handler, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            return command.run(flags) or 0
    except ModuleNotFoundError as error:
        return fail(
            f"{error.name} is not installed; run {install_command(extras.get(command.name, 'training'))}"
        )
    except KeyboardInterrupt:
        state = getattr(flags, "state", None)  # the default is None until the recipe is read
        kept = f"the same command continues in {state}" if state else "nothing was written"
        return fail(f"interrupted; {kept}", 130)
    except OSError as error:
        return fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except Exception as error:
        if is_out_of_memory(error):
            return fail(f"not enough memory ({str(error) or 'no more is free'})")
        if _is_user_error(error):
            return fail(str(error))
        raise  # a bug: show the traceback


def _is_user_error(error: Exception) -> bool:
    """Return whether the user can fix the error. An error about a board or a move means a bug."""
    from octofold_game.episodes import IllegalMoveError
    from octofold_game.rules import BoardError

    return isinstance(error, OctofoldError) and not isinstance(error, (BoardError, IllegalMoveError))
