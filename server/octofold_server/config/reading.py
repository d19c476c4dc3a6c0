"""Reads the configuration from the command line, the environment and a TOML file.

A flag takes precedence over its environment variable, then over the file of --config, then over the default.
An unknown flag or key, or a misspelled variable, is an error; its message suggests a similar name, if any.
"""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import version as installed_version
from pathlib import Path
from textwrap import wrap
from typing import Any, NoReturn

from octofold_game.commands.command_line import Parser
from octofold_game.commands.options import (
    Option,
    WrongValue,
    add_options,
    cut,
    flag_of,
    given_values,
    options_in,
    text_of,
)
from octofold_game.commands.removed import removal_notice
from octofold_game.commands.suggestions import did_you_mean
from octofold_game.system.files import read_regular

from octofold_server.config.options import Config, ConfigError, check_together, key_of, variable_of

PROGRAM = "octofold-serve"
OTHER_VARIABLES = {"OCTOFOLD_TOKEN"}
"""Variables of the command `octofold`, which the server does not report as unknown."""
FILE_OPTION = "config"
MAX_FILE_BYTES = 1 << 20
ALMOST_EQUAL = 0.75
"""Minimum similarity, from 0 to 1, between an unknown variable and a variable of the server, at which the
unknown one is an error. A less similar variable may belong to another program."""
FILE_WIDTH = 100


def read_config(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Config:
    """Read the configuration from command-line arguments, the environment and the configuration file.

    Raises:
        ConfigError: a flag, variable or key is unknown, a value is not allowed, two values contradict each
            other, or the file cannot be read.
        SystemExit: the help, the version or the configuration was requested and has been printed.
    """
    parsed = _parser().parse_args(arguments)
    _refuse_misspelled(environment)
    file = parsed.config or environment.get(variable_of(FILE_OPTION))
    from_file = _read_file(Path(file)) if file else {}
    values: dict[str, Any] = {}
    for option in options_in(Config):
        if (variable := variable_of(option.name)) in environment:
            values[option.name] = _parse(option, variable, environment[variable])
        elif option.name in from_file:
            values[option.name] = _parse(option, f"{file}: {key_of(option.name)}", from_file[option.name])
    config = Config(**values | given_values(Config, parsed))
    check_together(config)
    if parsed.print_config:
        for unknown in unknown_variables(environment):
            print(f"# {unknown} is not a variable of octofold-serve")
        print(as_toml(config), end="")
        raise SystemExit(0)
    return config


def unknown_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return environment variables with the prefix OCTOFOLD_ that neither server nor client reads."""
    prefix = variable_of("")
    ours = {name for name in environment if name.startswith(prefix)}
    return sorted(ours - _variables() - OTHER_VARIABLES)


def as_toml(config: Config) -> str:
    """Return the configuration as the text of a TOML file for --config.

    Every option has its help text as a comment. Options without a value are comments, too.
    """
    lines = list[str]()
    for option in options_in(Config):
        if group := option.marks["heading"]:
            lines += [f"# ==== {group} ====", ""]
        lines += [f"# {line}" for line in wrap(option.meaning, FILE_WIDTH, break_on_hyphens=False)]
        value = getattr(config, option.name)
        text = text_of(value)
        if not isinstance(value, bool | int | float):
            text = text and json.dumps(text, ensure_ascii=False)
        lines += [f"{key_of(option.name)} = {text}" if text else f"# {key_of(option.name)} =", ""]
    return "\n".join(lines)


class _Help(argparse.HelpFormatter):
    """A help formatter whose column of flags is wide enough for the longest flag."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34)


class _Parser(Parser):
    """A parser that raises `ConfigError` instead of exiting."""

    def fail(self, message: str) -> NoReturn:
        """Raise `ConfigError`."""
        raise ConfigError(f"{message} (see octofold-serve --help)")


def _parser() -> Parser:
    parser = _Parser(
        prog=PROGRAM,
        usage="octofold-serve [--FLAG VALUE ...]",
        description="Serve 2048 models over gRPC and, with --rest-port, over HTTP.",
        epilog="Every flag has an environment variable: --max-batch-size is OCTOFOLD_MAX_BATCH_SIZE.",
        add_help=False,
        formatter_class=_Help,
    )
    version = f"%(prog)s {installed_version('octofold')}"
    parser.add_argument("-h", "--help", action="help", help="print this help and exit")
    parser.add_argument("--version", action="version", version=version, help="print the version and exit")
    parser.add_argument(
        flag_of(FILE_OPTION),
        metavar="FILE",
        help="read options from this TOML file; keys are flags without the leading --: max-batch-size = 64",
    )
    parser.add_argument(
        "--print-config", action="store_true", help="print the configuration as a TOML file and exit"
    )
    add_options(parser, Config, opposites=True)
    return parser


def _variables() -> set[str]:
    return {variable_of(name) for name in (FILE_OPTION, *(option.name for option in options_in(Config)))}


def _refuse_misspelled(environment: Mapping[str, str]) -> None:
    prefix = variable_of("")
    known = [variable.removeprefix(prefix) for variable in _variables()]
    for variable in unknown_variables(environment):
        flag = flag_of(variable.removeprefix(prefix).lower())
        if gone := removal_notice(PROGRAM, flag, variable):
            raise ConfigError(gone)
        if near := get_close_matches(variable.removeprefix(prefix), known, n=1, cutoff=ALMOST_EQUAL):
            raise ConfigError(
                f"{variable} is not a variable of octofold-serve; did you mean {prefix}{near[0]}?"
            )


def _read_file(path: Path) -> dict[str, str]:
    """Return the values in a configuration file as text, by the name of their field in `Config`."""
    try:
        content = tomllib.loads(read_regular(path, MAX_FILE_BYTES).decode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    names = {key_of(option.name): option.name for option in options_in(Config)}
    values = {}
    for key, value in content.items():
        if key not in names:
            if gone := removal_notice(PROGRAM, flag_of(key), f"{path}: {key}"):
                raise ConfigError(gone)
            raise ConfigError(
                f"{path}: unknown key {key!r}; keys are flags of octofold-serve without the leading --"
                + did_you_mean(key, names)
            )
        if not isinstance(value, str | int | float):
            raise ConfigError(f"{path}: {key} must be a single value, got {cut(value)}")
        values[names[key]] = text_of(value)
    return values


def _parse(option: Option, source: str, text: str) -> Any:
    try:
        return option.kind.read(source, text)
    except WrongValue as error:
        raise ConfigError(str(error)) from None
