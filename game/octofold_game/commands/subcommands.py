"""The subcommands of a command, each with its options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

from octofold_game.commands.command_line import Parser
from octofold_game.commands.options import add_options, options_of


@dataclass(frozen=True)
class Command:
    """A subcommand."""

    name: str
    help: str
    """Summary in one line."""
    description: str
    options: type[Any]
    """A dataclass of options."""
    run: Callable[[Any], int | None] = lambda _: None
    """Function that runs the command with its options, and may return an exit code."""
    usage: str | None = None
    examples: tuple[str, ...] = ()
    """Command lines that its help shows as examples."""


class Parsed(NamedTuple):
    """A parsed command line."""

    command: Command
    options: Any
    """An instance of the command's options class."""
    parser: Parser
    """The parser of the command, which also reports errors that the command itself finds later."""


def parser_of(
    prog: str, description: str, commands: Sequence[Command], arguments: Sequence[str] | None = None
) -> Parser:
    """Make a parser with subcommands, and with the flags that every command has.

    Only subcommands that the arguments name get their options, because adding all options takes longer than
    most commands.
    """
    words = sys.argv[1:] if arguments is None else arguments
    parser = Parser(prog=prog, description=description)
    parser.add_argument("--version", action="version", version=f"{prog} {version('octofold')}")
    actions = parser.add_subparsers(metavar="COMMAND")
    for each in commands:
        added = actions.add_parser(
            each.name,
            help=each.help,
            description=each.description,
            usage=each.usage,
            examples=[f"{prog} {each.name} {example}".rstrip() for example in each.examples],
        )
        added.set_defaults(command=each)
        if each.name in words:
            add_options(added, each.options)
    return parser


def parse(parser: Parser, arguments: Sequence[str] | None) -> Parsed:
    """Parse the arguments of a command; exit if they are wrong."""
    parsed = parser.parse_args(arguments)
    own: Parser = parsed.parser
    if "command" not in parsed:
        own.fail("a command is missing")
    command: Command = parsed.command
    return Parsed(command, options_of(command.options, own, parsed), own)
