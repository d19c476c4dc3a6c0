"""Local players, which run in this process. A spec such as `expectimax:depth=2` selects one."""

import hashlib
import json
import sys
from importlib.metadata import entry_points
from pathlib import Path, PurePath

from octofold_game.contract.searches import GROUP
from octofold_game.player import Player
from octofold_game.player_specs import PlayerMissing, SpecError, make_player
from octofold_game.rules import LARGEST_EXPONENT

from octofold_client.contenders.served_model import ServedModel
from octofold_client.errors import EvaluationError, UsageError
from octofold_client.rpc.answers import ModelVersion


class LocalContender:
    """A player in this process.

    Args:
        player: the player.
        package_version: version of the player's package; empty for a player of the calling program.
        spec: the spec of the player; empty for a player of the calling program.

    Raises:
        EvaluationError: the object is not a player.
    """

    def __init__(self, player: Player, package_version: str = "", spec: str = "") -> None:
        _check_player(player)
        own = getattr(player, "sha256", None)
        self.player = player
        self.has_own_digest = own is not None
        """Whether the player has an attribute `sha256`. If it has, its name includes its options."""
        self.package_version = package_version
        self.spec = spec
        # Computed before the games, because a player may learn or cache something while it plays.
        self.sha256: str | None = source_digest(player) if own is None else own
        """The player's attribute `sha256`, or else `source_digest` of the player; None if neither exists."""
        # Without its own digest, the name of a player may leave out its options. Its spec has them.
        self.title = self.model = spec if own is None and ":" in spec else player.name
        self.version = ModelVersion(package_version, "ready", "", "", None)
        """The version of the player's package, as a ready model version without a card."""

    @property
    def largest_exponent(self) -> int:
        """Largest exponent that the player can play with."""
        return getattr(self.player, "largest_exponent", LARGEST_EXPONENT)


Contender = ServedModel | LocalContender
"""A player of an evaluation."""


def source_digest(player: object) -> str | None:
    """Return the SHA-256 of a player's source code and attributes, in hexadecimal.

    The source code consists of the modules that define the player's class and its base classes, except those
    of Python itself. Other modules and files do not count.

    Returns:
        The digest; None if a module has no source, or if an attribute does not consist of texts, numbers and
        paths.
    """
    kinds = type(player).__mro__
    modules = {kind.__module__: None for kind in kinds if kind.__module__ not in sys.stdlib_module_names}
    try:
        sources = [Path(str(sys.modules[module].__file__)).read_bytes() for module in modules]
        state = json.dumps([kinds[0].__qualname__, vars(player)], sort_keys=True, default=_path_to_json)
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        return None
    digests = [hashlib.sha256(part).hexdigest() for part in (*sources, state.encode())]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _path_to_json(value: object) -> str:
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(type(value))


def _check_player(player: object) -> None:
    kind = player.__name__ if isinstance(player, type) else type(player).__name__
    if isinstance(player, type):
        raise EvaluationError(f"the player must be an instance, got the class {kind}: use {kind}()")
    if not callable(getattr(player, "next_moves", None)):
        raise EvaluationError(f"{kind} is not a player: it has no method next_moves(boards)")
    name = getattr(player, "name", None)
    if not isinstance(name, str) or not name:
        raise EvaluationError(f'{kind} has no name: give it an attribute such as name = "{kind.lower()}"')


def local_player(spec: str) -> LocalContender:
    """Load the player of a spec; `octofold_game.player_specs` describes specs.

    Raises:
        UsageError: the player or an option is unknown, an option is missing, or a value has the wrong type.
        EvaluationError: a package or a file is missing, or the player rejects the value of an option.
    """
    try:
        made = make_player(spec)
    except SpecError as error:
        raise UsageError(str(error)) from None
    except PlayerMissing as error:
        raise EvaluationError(str(error)) from None
    return LocalContender(made.player, made.package_version, spec)


def is_spec(text: str) -> bool:
    """Return whether a text is a spec: the name of a local player, or NAME:OPTIONS, but not NAME:NUMBER."""
    kind, _, words = text.partition(":")
    return not words.isdecimal() if words else kind in entry_points(group=GROUP).names
