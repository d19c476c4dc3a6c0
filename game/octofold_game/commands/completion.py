"""Shell completion: prints a script that completes the flags of a command, for bash, zsh and fish.

The script holds all flags and choices, so a press of the tab key starts no Python.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from octofold_game.commands.options import one_of

SHELLS = ("bash", "zsh", "fish")
FLAG = "--completion"

_FILE = re.compile(r"FILE\b.*|LOG|PATH|RECIPE|RESULT\.json")
_FOLDER = re.compile(r"DIR|FOLDER|A B")
"""Placeholders of arguments that name folders; the sides of a comparison, A and B, may be folders."""


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add `--completion SHELL`, which prints the script and exits."""
    parser.add_argument(
        FLAG,
        action=_PrintScript,
        type=partial(one_of(*SHELLS).read, FLAG),
        choices=SHELLS,
        metavar="SHELL",
        help=f"print a completion script for {', '.join(SHELLS[:-1])} or {SHELLS[-1]}, and exit",
    )


class _PrintScript(argparse.Action):
    def __init__(self, **options: Any) -> None:
        options["dest"] = argparse.SUPPRESS
        super().__init__(default=argparse.SUPPRESS, **options)

    def __call__(
        self, parser: argparse.ArgumentParser, _namespace: object, values: Any, _option: str | None = None
    ) -> None:
        """Print the script for the parser that has the flag."""
        # Imported late: no other command needs it.
        import shtab

        for action in _actions(parser):
            if isinstance(action.metavar, str) and not hasattr(action, "complete"):
                if _FILE.fullmatch(action.metavar):
                    action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks for it
                elif _FOLDER.fullmatch(action.metavar):
                    action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        try:
            print(shtab.complete(parser, values), flush=True)
        except BrokenPipeError:  # the reader has enough; Python must not write to it at exit either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        parser.exit()


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All arguments of the parser and of its subcommands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from _actions(subparser)
