"""Makes players from specs: `KIND`, or `KIND:OPTION=VALUE,...`, such as `expectimax:depth=2`.

Installed packages register players as entry points of the group `octofold.players`. Each entry point is a
dataclass that implements `octofold_game.player.Player`. Its fields are the options; an option without a
default can be given without its name. A player and its requirements, such as numba, are imported only when
the player is used.
"""

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, fields
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from octofold_game.commands.extras import install_command
from octofold_game.commands.suggestions import did_you_mean
from octofold_game.contract.searches import GROUP
from octofold_game.errors import OctofoldError


class SpecError(OctofoldError, ValueError):
    """An error in a spec, such as an unknown player, a missing option or a value of the wrong type."""


class PlayerMissing(OctofoldError):
    """An error about a player that cannot be created: a package or a file is missing, or a value is wrong."""


class MadePlayer(NamedTuple):
    """A player made from a spec, with its origin."""

    kind: str
    """The name of the player's entry point."""
    player: Any
    """The player, which implements `octofold_game.player.Player`."""
    package_version: str
    """The version of the player's package."""


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


_PARSERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (int, "a whole number"),
    int | None: (int, "a whole number"),
    float: (float, "a number"),
    bool: (_truth, "true or false"),
    Path: (Path, "a path"),
    Path | None: (Path, "a path"),
    str: (str, "text"),
}


def make_player(spec: str) -> MadePlayer:
    """Parse a spec and create its player.

    Raises:
        SpecError: the player or an option is unknown, an option is missing, or a value has the wrong type.
        PlayerMissing: a package or a file is missing, or the player rejects a value.
    """
    kind, _, words = spec.partition(":")
    known = {entry.name: entry for entry in entry_points(group=GROUP)}
    if kind not in known:
        raise SpecError(f"unknown player {kind or spec!r}{_hint(kind, known)}")
    entry = known[kind]
    try:
        player = entry.load()
        made = player(**_parse_options(kind, player, words))
    except ModuleNotFoundError as error:  # some players import packages only when they are created
        extra = entry.extras[0] if entry.extras else "players"
        raise PlayerMissing(f"the player {kind} needs {error.name}: run {install_command(extra)}") from None
    except SpecError:
        raise
    except (ValueError, OSError) as error:
        raise PlayerMissing(f"player {spec}: {error}") from None
    distribution = entry.dist
    assert distribution is not None  # because the entry point comes from an installed package
    return MadePlayer(kind, made, distribution.version)


def _parse_options(kind: str, player: Any, words: str) -> dict[str, Any]:
    options = {option.name: option for option in fields(player)}
    types = get_type_hints(player)
    values: dict[str, Any] = {}
    for word in words.split(",") if words else []:
        name, equals, text = word.partition("=")
        if not equals:
            unnamed = [name for name in _required(options.values()) if name not in values]
            if not unnamed:
                raise SpecError(f"{kind}: an option must be OPTION=VALUE, got {word!r}{_hint(word, options)}")
            name, text = unnamed[0], word
        if name not in options:
            raise SpecError(f"{kind} has no option {name}{_hint(name, options)}")
        if name in values:
            raise SpecError(f"{kind}: {name} is given twice")
        if types[name] not in _PARSERS:
            readable = ", ".join(kind.__name__ for kind in _PARSERS if isinstance(kind, type))
            raise SpecError(
                f"{kind}: the type of {name} must be one of {readable}, got {_type_name(types[name])}"
            )
        read, what = _PARSERS[types[name]]
        try:
            values[name] = read(text)
        except ValueError:
            raise SpecError(f"{kind}: {name} must be {what}, got {text!r}") from None
    missing = [name for name in _required(options.values()) if name not in values]
    if missing:
        raise SpecError(f"{kind} needs the option {missing[0]}, as in {kind}:{missing[0].upper()}")
    return values


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _required(options: Iterable[Field[Any]]) -> list[str]:
    return [each.name for each in options if each.default is each.default_factory is MISSING]


def _hint(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    return f" (choose from {', '.join(names) or 'none'}){did_you_mean(word, names)}"
