"""Runs a program with subcommands that train: what goes wrong is one line and an exit code.

A subcommand imports only what it needs: `--help` is fast, and works without torch and numba.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence

from octofold_game.commands.extras import install_command
from octofold_game.commands.signals import handling
from octofold_game.commands.subcommands import Command, parse, parser_of
from octofold_game.errors import OctofoldError

from octofold_training.errors import FailedInAnotherProcess, is_out_of_memory
from octofold_training.flags import RunFlags


def run_program(
    program: str,
    description: str,
    commands: Sequence[Command],
    extras: Mapping[str, str],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run a subcommand and return its exit code: 0, 1 for a failure, 130 after Ctrl-C, SIGTERM or SIGHUP.

    Args:
        program: its name.
        description: what it does, for its help.
        commands: the subcommands.
        extras: the extra that a subcommand needs, by its name; for others, it is `training`.
        arguments: of the command line; those of this process by default.

    Raises `SystemExit`: with code 0 after `--help`, with code 2 after one line on stderr for wrong usage.
    """

    def fail(message: str, code: int = 1) -> int:
        print(f"{program}: {message}", file=sys.stderr)
        return code

    command, flags, own = parse(parser_of(program, description, commands, arguments), arguments)
    if isinstance(flags, RunFlags) and not (flags.recipe or flags.keys):
        own.fail("recipe is missing")
    # By default, threads of OpenMP spin while they wait. Beside other programs, they keep the core that the
    # last of them needs, in each of the many short loops of an update. It is read when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    try:
        with handling(signal.default_int_handler, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            return command.run(flags) or 0
    except ModuleNotFoundError as error:
        return fail(
            f"{error.name} is not installed; run {install_command(extras.get(command.name, 'training'))}"
        )
    except KeyboardInterrupt:
        state = getattr(flags, "state", None)  # a trainer's default is known once its recipe is read
        kept = f"the same command continues in {state}" if state else "nothing was written"
        return fail(f"interrupted; {kept}", 130)
    except FailedInAnotherProcess:
        return 1
    except OSError as error:
        return fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except Exception as error:
        if is_out_of_memory(error):
            return fail(f"not enough memory ({str(error) or 'no more is free'})")
        if _is_refusal(error):
            return fail(str(error))
        raise  # a mistake of ours, whose place should be seen


def _is_refusal(error: Exception) -> bool:
    """Whether the error is the user's to mend; a wrong board or move is a bug."""
    from octofold_game.episodes import IllegalMoveError
    from octofold_game.rules import BoardError

    return isinstance(error, OctofoldError) and not isinstance(error, (BoardError, IllegalMoveError))
