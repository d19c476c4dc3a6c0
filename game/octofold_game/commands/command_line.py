"""The argument parser of all commands: an error is one line that says what is wrong and what was meant."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from octofold_game.commands.suggestions import did_you_mean

WRONG_COMMAND_LINE = 2
"""Exit code for arguments that cannot be right."""

_ARGUMENT = re.compile(r"argument ([^:]+): (.*)", re.DOTALL)
_REQUIRED = "the following arguments are required: "
_CHOICE = re.compile(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", re.DOTALL)
_NUMBER = re.compile(r"invalid (?:int|float) value: ('.*')", re.DOTALL)
_MOST_DIGITS = 20  # of 2**64 - 1
_LONGEST_WORD = 100  # of what was typed, in an error
_OPTION = re.compile(r"--[a-z][a-z0-9-]*")


class Parser(argparse.ArgumentParser):
    """`argparse.ArgumentParser`, without the usage before an error, and without abbreviated options."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        # For what only the command itself can find out; that of a subcommand takes the place of its parent's.
        self.set_defaults(refuse=self.error)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As `argparse` does, but each parser of a subcommand refuses what it does not know."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown)
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments, in plain words; see `fail`."""
        if match := _ARGUMENT.fullmatch(message):
            message = _plain(match[1], match[2])
        elif message.startswith(_REQUIRED):
            message = f"{message.removeprefix(_REQUIRED)} is missing"
        self.fail(message)

    def fail(self, message: str) -> NoReturn:
        """Print what is wrong as one line and exit with `WRONG_COMMAND_LINE`."""
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(WRONG_COMMAND_LINE)

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        option = next((word for word in unknown if word.startswith("-")), "")
        if not option:
            self.error(f"unexpected argument {unknown[0][:_LONGEST_WORD]!r}")
        name = option.partition("=")[0][:_LONGEST_WORD]
        self.error(f"there is no option {name}{did_you_mean(name, _OPTION.findall(self.format_help()))}")


def whole_number(text: str) -> int | None:
    """The whole number that the text is; None for other text, and for more digits than any option takes.

    Without that limit, `int` raises an error of its own above 4,300 digits.
    """
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _plain(argument: str, reason: str) -> str:
    """What is wrong with the value of an argument, in plainer words than those of argparse."""
    if match := _CHOICE.fullmatch(reason):
        known = match[2].replace("'", "").split(", ")
        return f"{argument}: {match[1]!r} is not one of {', '.join(known)}{did_you_mean(match[1], known)}"
    if match := _NUMBER.fullmatch(reason):
        return f"{argument}: {match[1]} is not a number"
    if reason.startswith("expected "):
        return f"{argument} needs a value"
    if reason.startswith("not allowed with argument "):
        return f"{argument} cannot be combined with {reason.removeprefix('not allowed with argument ')}"
    return f"{argument}: {reason}"
