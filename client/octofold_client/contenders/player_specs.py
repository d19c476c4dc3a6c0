"""Local players, which run in this process and are named by specs such as `expectimax:depth=2`.

Installed packages register players as entry points of the group `octofold.players`. Each is a dataclass that
implements `octofold_game.player.Player`; its fields are the options. The client imports a player and its
requirements (numba for the players of Octofold) only when it is used.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, fields
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path, PurePath
from typing import Any, get_type_hints

from octofold_game.commands.extras import install_command
from octofold_game.commands.suggestions import did_you_mean
from octofold_game.player import Player
from octofold_game.rules import LARGEST_EXPONENT

from octofold_client.errors import EvaluationError, UsageError
from octofold_client.rpc.answers import ModelVersion
from octofold_client.wording import listed

GROUP = "octofold.players"


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


_READ: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (int, "a whole number"),
    int | None: (int, "a whole number"),
    float: (float, "a number"),
    bool: (_truth, "true or false"),
    Path: (Path, "a path"),
    Path | None: (Path, "a path"),
    str: (str, "text"),
}


class LocalPlayer:
    """A player in this process, as a `Contender`.

    Args:
        player: the player.
        package_version: version of the player's package; empty for a player of the calling program.
        spec: the spec of the player; empty for a player of the calling program.

    Raises:
        EvaluationError: the object is not a player.
    """

    def __init__(self, player: Player, package_version: str = "", spec: str = "") -> None:
        _check(player)
        own = getattr(player, "sha256", None)
        self.player = player
        self.names_itself = own is not None
        """Whether the player has its own digest; its name is then complete, too."""
        self.package_version = package_version
        self.spec = spec
        # Before it plays, because a player may learn or cache something during its games.
        self.sha256: str | None = source_digest(player) if own is None else own
        """The player's own digest, or that of its source and options; None if unknown."""
        # The name of a player without its own digest may leave out its options.
        self.title = spec if own is None and ":" in spec else player.name

    @property
    def model(self) -> str:
        """Name of the player."""
        return self.title

    @property
    def version(self) -> ModelVersion:
        """Version of the player's package."""
        return ModelVersion(self.package_version, "ready", "", "", None)

    @property
    def largest_exponent(self) -> int:
        """Largest exponent that the player can play with."""
        return getattr(self.player, "largest_exponent", LARGEST_EXPONENT)


def source_digest(player: object) -> str | None:
    """The SHA-256 of the source of a player's modules and of its attributes, in hexadecimal.

    The modules are those of its class and of the bases of the class. Other files that they use do not count.

    Returns:
        None if a module has no source, or an attribute is neither text, a number, a path, nor made of these.
    """
    kinds = type(player).__mro__
    modules = {kind.__module__: None for kind in kinds if kind.__module__ not in sys.stdlib_module_names}
    try:
        sources = [Path(str(sys.modules[module].__file__)).read_bytes() for module in modules]
        state = json.dumps([kinds[0].__qualname__, vars(player)], sort_keys=True, default=_path_text)
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        return None
    digests = [hashlib.sha256(part).hexdigest() for part in (*sources, state.encode())]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _path_text(value: object) -> str:
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(type(value))


def _check(player: object) -> None:
    kind = player.__name__ if isinstance(player, type) else type(player).__name__
    if isinstance(player, type):
        raise EvaluationError(f"{kind} is a class: evaluate an instance of it, such as {kind}()")
    if not callable(getattr(player, "next_moves", None)):
        raise EvaluationError(f"{kind} is not a player: it has no method next_moves(boards)")
    name = getattr(player, "name", None)
    if not isinstance(name, str) or not name:
        raise EvaluationError(f'{kind} has no name: give it an attribute such as name = "{kind.lower()}"')


def local_player(spec: str) -> LocalPlayer:
    """The player that `KIND` or `KIND:OPTION=VALUE,...` means; an option without a default needs no name.

    Raises:
        UsageError: the player or an option is unknown, or a value is invalid.
        EvaluationError: a package or a file is missing.
    """
    kind, _, words = spec.partition(":")
    known = {entry.name: entry for entry in entry_points(group=GROUP)}
    if kind not in known:
        raise UsageError(f"unknown player {kind or spec!r}{_hint(kind, known)}")
    player = _load(known[kind])
    options = _options(kind, player, words)
    try:
        made = player(**options)
    except (ValueError, OSError) as error:
        raise EvaluationError(f"player {spec}: {error}") from None
    distribution = known[kind].dist
    assert distribution is not None  # the entry point comes from an installed package
    return LocalPlayer(made, distribution.version, spec)


def is_spec(text: str) -> bool:
    """Whether a text names a local player, and not a model; with a version, such as `ntuple:2`, a model."""
    kind, _, words = text.partition(":")
    return not words.isdecimal() if words else kind in entry_points(group=GROUP).names


def _load(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        extra = entry.extras[0] if entry.extras else "players"
        raise EvaluationError(
            f"the player {entry.name} needs {error.name}: run {install_command(extra)}"
        ) from None


def _options(kind: str, player: Any, words: str) -> dict[str, Any]:
    options = {option.name: option for option in fields(player)}
    types = get_type_hints(player)
    values: dict[str, Any] = {}
    for word in words.split(",") if words else []:
        name, equals, text = word.partition("=")
        if not equals:
            unnamed = [name for name in _required(options.values()) if name not in values]
            if not unnamed:
                raise UsageError(f"{kind}: {word!r} is not OPTION=VALUE{_hint(word, options)}")
            name, text = unnamed[0], word
        if name not in options:
            raise UsageError(f"{kind} has no option {name}{_hint(name, options)}")
        if name in values:
            raise UsageError(f"{kind}: {name} is given twice")
        if types[name] not in _READ:
            readable = listed(kind.__name__ for kind in _READ if isinstance(kind, type))
            raise UsageError(
                f"{kind}: {name} has the type {_type_name(types[name])}, but a spec gives only {readable}"
            )
        read, what = _READ[types[name]]
        try:
            values[name] = read(text)
        except ValueError:
            raise UsageError(f"{kind}: {name}={text} is not {what}") from None
    missing = [name for name in _required(options.values()) if name not in values]
    if missing:
        raise UsageError(f"{kind} needs {missing[0]}: {kind}:{missing[0].upper()}")
    return values


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _required(options: Any) -> list[str]:
    def needed(option: Field[Any]) -> bool:
        return option.default is MISSING and option.default_factory is MISSING

    return [option.name for option in options if needed(option)]


def _hint(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    return f" (choose from {listed(names)}){did_you_mean(word, names)}"
