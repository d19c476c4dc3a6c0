"""The argument parser of all commands. An error is one line that names the fault and suggests a fix."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from octofold_game.commands.removed import removal_notice
from octofold_game.commands.suggestions import did_you_mean

WRONG_COMMAND_LINE = 2
"""Exit code for a wrong command line."""
_LONGEST_WORD = 100
"""Maximum number of characters of an unknown word in an error message."""


class Parser(argparse.ArgumentParser):
    """An `argparse.ArgumentParser` with errors of one line and without abbreviations of options.

    If the `type` function of an argument raises a ValueError, the text of this error is the whole message.
    The help shows the examples before the options.
    """

    def __init__(self, *, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(allow_abbrev=False, exit_on_error=False, **options)
        self._examples = examples
        # A command reports its own errors by `parsed.parser`, which a subcommand's parser replaces.
        self.set_defaults(parser=self)

    def format_help(self) -> str:
        """Return the usage, the examples, and the options."""
        usage, rest = super().format_help().split("\n\n", 1)
        examples = ["examples:", *(f"  {example}" for example in self._examples), "\n"]
        return "\n\n".join([usage, "\n".join(examples) * bool(self._examples) + rest])

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as `argparse` does, but let each subcommand's parser reject unknown arguments."""
        try:
            parsed, unknown = super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            self.fail(f"{error.argument_name}: {error.message}")
        if unknown:
            self._refuse(unknown)
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Print an error and exit, as `fail` does."""
        self.fail(message)

    def fail(self, message: str) -> NoReturn:
        """Print an error as one line and exit with `WRONG_COMMAND_LINE`."""
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(WRONG_COMMAND_LINE)

    def _refuse(self, unknown: Iterable[str]) -> NoReturn:
        option = next((word for word in unknown if word.startswith("-")), "")
        if not option:
            self.fail(f"unexpected argument {next(iter(unknown))[:_LONGEST_WORD]!r}")
        name = option.partition("=")[0][:_LONGEST_WORD]
        known = self._option_string_actions
        self.fail(removal_notice(self.prog, name) or f"there is no option {name}{did_you_mean(name, known)}")

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError:
            self.fail(f"{_name_of(action)} needs a value")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return arg_string if action.type is None else action.type(arg_string)  # type: ignore[operator]
        except ValueError as error:
            self.fail(str(error))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            known = list(action.choices)
            meant = did_you_mean(value, known) or f"; choose from {', '.join(known)}"
            unknown = f"there is no command {value[:_LONGEST_WORD]!r}{meant}"
            self.fail(removal_notice(self.prog, value) or unknown)


def _name_of(action: argparse.Action) -> str:
    return action.option_strings[0] if action.option_strings else str(action.metavar or action.dest)
