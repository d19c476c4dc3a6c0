"""Declares the options of a command as fields of a dataclass, each with its default and its help.

    @dataclass(frozen=True)
    class Games:
        games: int = option(100, "number of games", minimum=1)
        out: Folder | None = option(None, "folder for the result")

    options = read(Games, Parser(prog="play"), sys.argv[1:])

The type of a field determines how its text is parsed: a whole number, a number, a text, a path, one word of a
`Literal`, or a switch. A field may also be annotated with a `Kind` of its own.
"""

from __future__ import annotations

import math
import re
from argparse import SUPPRESS, BooleanOptionalAction, Namespace, _ActionsContainer
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from inspect import get_annotations
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from octofold_game.commands.command_line import Parser
from octofold_game.commands.suggestions import did_you_mean

_LONGEST_VALUE = 100
"""Maximum number of characters of a wrong value in an error message."""
_PERCENT = re.compile(r"([0-9]{1,2}(?:\.[0-9]{1,6})?)(%?)")
_MOST_DIGITS = 20
"""Maximum number of digits of an integer. The largest value of an option, 2**64 - 1, has 20 digits."""

Options = TypeVar("Options")


class WrongValue(ValueError):
    """An error about a value that is not allowed. `Kind.read` adds the source of the value to the message."""


@dataclass(frozen=True)
class Kind:
    """A type of option, such as integers from 1 to 8: how its text is parsed and described to the user."""

    parse: Callable[[str], Any]
    """Function that converts a text to a value. If it raises a `WrongValue`, the user sees this error's text;
    for any other ValueError or a KeyError, the user sees `allowed`."""
    allowed: str
    """Description of the allowed texts."""
    placeholder: str
    """Placeholder of the value in the help."""
    is_plain: bool = False
    """Whether the help omits the allowed values."""
    choices: tuple[str, ...] = ()
    """The allowed words, if the value is one word of a list."""

    def read(self, source: str, text: str) -> Any:
        """Parse the text of a value.

        Raises:
            WrongValue: the value is not allowed; the message begins with its `source`, such as a flag.
        """
        try:
            return self.parse(text)
        except WrongValue as error:
            raise WrongValue(f"{source}: {error}") from None
        except (ValueError, KeyError):
            meant = did_you_mean(text, self.choices)
            raise WrongValue(f"{source} must be {self.allowed}, got {cut(text)}{meant}") from None


def cut(value: object) -> str:
    """Format a value for an error message, shortened if it is long."""
    written = repr(value)
    return written if len(written) <= _LONGEST_VALUE else f"{written[:_LONGEST_VALUE]}..."


def integer(minimum: float, maximum: float) -> Kind:
    """Return the kind of integers between two inclusive bounds."""
    bounds = f"from {minimum} to {maximum}" if math.isfinite(maximum) else f"from {minimum}"
    return Kind(lambda text: _within(whole_number(text), minimum, maximum), f"an integer {bounds}", "N")


def number(minimum: float, maximum: float, of: str = "", placeholder: str = "X") -> Kind:
    """Return the kind of numbers between two inclusive bounds; `of` is their unit, such as " of seconds"."""
    bounds = f"from {minimum:g} to {maximum:.15g}" if math.isfinite(maximum) else f"from {minimum:g}"
    return Kind(lambda text: _within(float(text), minimum, maximum), f"a number{of} {bounds}", placeholder)


def one_of(*values: Any) -> Kind:
    """Return the kind of values that are one of `values`, such as words or numbers."""
    choices = tuple(map(str, values))
    allowed = ", ".join(choices[:-1]) + f" or {choices[-1]}" if len(choices) > 1 else choices[0]
    return Kind(
        dict(zip(choices, values, strict=True)).__getitem__, allowed, "|".join(choices), True, choices
    )


def _within(value: Any, minimum: float, maximum: float) -> Any:
    if value is None or not minimum <= value <= maximum:
        raise ValueError
    return value


def whole_number(text: str) -> int | None:
    """Parse an integer of at least 0. Return None for other text and for more than `_MOST_DIGITS` digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _percentage(text: str) -> Fraction:
    if found := _percentage_or_none(text):
        return found
    raise ValueError


def _percentage_or_none(text: str) -> Fraction:
    match = _PERCENT.fullmatch(text)
    if match is None:
        raise ValueError
    if not match[2]:
        raise WrongValue(f"{text} has no percent sign: write {text}% for {text} percent")
    return Fraction(match[1]) / 100


SWITCH = Kind(
    lambda text: {"1": True, "true": True, "0": False, "false": False}[text.lower()],
    "true, false, 1 or 0",
    "",
    is_plain=True,
)
TEXT = Kind(_text, "a name", "NAME", is_plain=True)
PATH = Kind(lambda text: Path(_text(text)), "a path", "PATH", is_plain=True)
Name = Annotated[str, Kind(str, "a name, or empty for none", "NAME", is_plain=True)]
Folder = Annotated[Path, replace(PATH, placeholder="DIR")]
File = Annotated[Path, replace(PATH, placeholder="FILE")]
Percentage = Annotated[
    Fraction, Kind(_percentage, "a percentage above 0% and below 100%, such as 2%", "X%", is_plain=True)
]
PercentageOrNone = Annotated[
    Fraction,
    Kind(_percentage_or_none, "a percentage of at least 0% and below 100%, such as 2%", "X%", is_plain=True),
]
Seed = Annotated[int, integer(0, 2**64 - 1)]


def option(
    default: Any,
    help: str,
    minimum: float = 0,
    maximum: float = math.inf,
    *,
    flag: str = "",
    metavar: str = "",
    heading: str = "",
    exclusive_group: str = "",
    words: str = "",
    const: str = "",
    **marks: Any,
) -> Any:
    """Declare a field of a dataclass that is an option.

    Args:
        default: value of an option that is not given; `...` if the option is required.
        help: help text, which begins with what the option does.
        minimum: the smallest number that is allowed.
        maximum: the largest number that is allowed.
        flag: flag of the option; if empty, it is derived from the name of the field.
        metavar: placeholder of the value in the help; if empty, the placeholder of the option's kind.
        heading: heading above this option in the help. The options up to the next heading belong to it. The
            text after the first line introduces them.
        exclusive_group: name of a group of options that exclude each other.
        words: `append` if the flag may be repeated; `+` or `*` if several words may follow.
        const: value of the option if the flag is given alone.
        marks: additional metadata for the caller, kept in `Option.marks`.
    """
    marks |= {"help": help, "minimum": minimum, "maximum": maximum, "flag": flag, "metavar": metavar}
    marks |= {"heading": heading, "exclusive_group": exclusive_group, "words": words, "const": const}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=marks)
    return field(metadata=marks) if default is ... else field(default=default, metadata=marks)


def argument(metavar: str, help: str, words: str = "") -> Any:
    """Declare an argument without a flag; if `words` is `+` or `*`, its value is a list."""
    return option([] if words == "*" else ..., help, metavar=metavar, words=words, is_argument=True)


def flag_of(name: str) -> str:
    """Return the flag of the option that the field `name` declares."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Option:
    """An option, read from a field of a dataclass."""

    name: str
    kind: Kind
    default: Any
    """Default of the option; `MISSING` if it is required."""
    marks: dict[str, Any]
    heading: str

    @property
    def flag(self) -> str:
        """The flag, or the placeholder of an argument without a flag."""
        if self.marks.get("is_argument"):
            return str(self.marks["metavar"])
        return self.marks["flag"] or flag_of(self.name)

    @property
    def meaning(self) -> str:
        """The help text with allowed values and default."""
        text = str(self.marks["help"])
        if "(default" in text:
            return text
        notes = [] if self.kind.is_plain or self.marks["metavar"] else [self.kind.allowed]
        if self.default is not False and (default := text_of(self.default)):
            notes.append(f"default: {default}")
        return f"{text} ({'; '.join(notes)})" if notes else text


def text_of(value: Any) -> str:
    """Format a value as text that its kind can parse; empty for None, `MISSING`, `[]` and infinity."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return "" if value in (None, MISSING, []) or value == math.inf else str(value)


def options_in(kind: type[Any]) -> Iterator[Option]:
    """Yield the options that a dataclass declares, in the order of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    headings: dict[str, str] = {}
    marks: dict[str, Any] = {each.name: each.metadata for each in fields(kind)}
    for owner in kind.__mro__:
        heading = ""
        for name in get_annotations(owner):
            heading = marks.get(name, {}).get("heading") or heading
            headings.setdefault(name, heading)
    for each in fields(kind):
        if each.metadata:
            default = each.default if each.default_factory is MISSING else each.default_factory()
            yield Option(
                each.name,
                kind_of(hints[each.name], each.metadata["minimum"], each.metadata["maximum"]),
                default,
                dict(each.metadata),
                headings[each.name],
            )


def kind_of(hint: Any, minimum: float = 0, maximum: float = math.inf) -> Kind:
    """Return the `Kind` that parses values of type `hint` or elements of a list; numbers get the bounds."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return next(each for each in arguments if isinstance(each, Kind))
    if origin in (Union, UnionType):
        return kind_of(next(each for each in arguments if each is not NoneType), minimum, maximum)
    if origin in (list, tuple):
        return kind_of(arguments[0], minimum, maximum)
    if origin is Literal:
        return one_of(*arguments)
    if hint in (int, float):
        return (integer if hint is int else number)(minimum, maximum)
    return {bool: SWITCH, str: TEXT, Path: PATH}[hint]


def add_options(parser: Parser, kind: type[Any], *, opposites: bool = False) -> None:
    """Add the options of a dataclass to a parser; `given_values` and `options_of` return their values.

    With `opposites`, every switch also has a flag that turns it off, because a file or a variable may turn
    the switch on.
    """
    groups: dict[str, _ActionsContainer] = {"": parser}
    for each in options_in(kind):
        if each.heading not in groups:
            title, _, text = each.heading.partition("\n")
            groups[each.heading] = parser.add_argument_group(title, text or None)
        _add(groups[each.heading], each, opposites)


def _add(group: _ActionsContainer, declared: Option, opposites: bool) -> None:
    marks, kind = declared.marks, declared.kind
    common: dict[str, Any] = {"help": declared.meaning.replace("%", "%%"), "default": SUPPRESS}
    if kind is SWITCH:
        if declared.flag.startswith("--no-") or (declared.default is False and not opposites):
            value = not declared.flag.startswith("--no-")
            group.add_argument(declared.flag, dest=declared.name, action="store_const", const=value, **common)
        else:
            group.add_argument(declared.flag, dest=declared.name, action=BooleanOptionalAction, **common)
        return
    words = marks["words"]
    common |= {"type": partial(kind.read, declared.flag), "metavar": marks["metavar"] or kind.placeholder}
    common |= {"choices": kind.choices} if kind.choices else {}
    if marks.get("is_argument"):
        action = group.add_argument(declared.name, nargs=words or None, **common)
        action.required = False  # because `options_of` reports missing options
    elif words == "append":
        group.add_argument(declared.flag, dest=declared.name, action=words, **common)
    else:
        common["nargs"] = words or ("?" if marks["const"] else None)
        group.add_argument(declared.flag, dest=declared.name, const=marks["const"] or None, **common)


def given_values(kind: type[Any], parsed: Namespace) -> dict[str, Any]:
    """Return the values of the options on the command line, by the names of their fields."""
    return {each.name: getattr(parsed, each.name) for each in fields(kind) if hasattr(parsed, each.name)}


def options_of(kind: type[Options], parser: Parser, parsed: Namespace) -> Options:
    """Return the parsed options; exit if some are missing or exclude each other."""
    values, exclusive = given_values(kind, parsed), dict[str, str]()
    for each in options_in(kind):
        if each.name not in values and each.default is MISSING:
            parser.fail(f"{each.flag} is missing")
        if (group := each.marks["exclusive_group"]) and each.name in values:
            if group in exclusive:
                parser.fail(f"{each.flag} cannot be combined with {exclusive[group]}")
            exclusive[group] = each.flag
    return kind(**values)


def read(kind: type[Options], parser: Parser, arguments: Sequence[str] | None = None) -> Options:
    """Parse the arguments as the options of a dataclass; exit if an argument is wrong."""
    add_options(parser, kind)
    return options_of(kind, parser, parser.parse_args(arguments))
