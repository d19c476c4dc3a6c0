"""Players in this process, named by specs such as `expectimax:depth=2`, and asked as a server is asked.

Who there is, the installed packages say by entry points of the group `octofold.players`: each names a
dataclass that implements `octofold_game.player.Player`, whose fields are the options. The client imports no
player, nor what it needs (numba, for those of Octofold), before it is asked for.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray
from octofold_game.player import Player
from octofold_game.rules import LARGEST_EXPONENT

from octofold_client.answers import ModelVersion, NextMoves
from octofold_client.errors import EvaluationError

GROUP = "octofold.players"
BOARDS_AT_ONCE = 32
"""A search of many boards may take minutes; between two such slices, it can be given up."""
_READ: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (int, "a whole number"),
    int | None: (int, "a whole number"),
    float: (float, "a number"),
    Path: (Path, "a path"),
    str: (str, "text"),
}


@dataclass(frozen=True)
class LocalContender:
    """A local player as `selection.Contender`, with the version of the package that it comes from."""

    player: Player
    package_version: str

    @property
    def model(self) -> str:
        return self.player.name

    @property
    def version(self) -> ModelVersion:
        return ModelVersion(self.package_version, "ready", "", "", None)

    @property
    def title(self) -> str:
        return self.player.name

    @property
    def largest_exponent(self) -> int:
        return getattr(self.player, "largest_exponent", LARGEST_EXPONENT)

    @property
    def sha256(self) -> str | None:
        """Digest of what decides its moves; None for a player that has none."""
        return getattr(self.player, "sha256", None)


def local_player(spec: str) -> LocalContender:
    """The player that `KIND` or `KIND:OPTION=VALUE,...` means; an option without a default needs no name.

    Raises `EvaluationError`, saying what there is, for an unknown player or option, for a value that is none,
    and where a package is missing that the player needs.
    """
    kind, _, words = spec.partition(":")
    known = {entry.name: entry for entry in entry_points(group=GROUP)}
    if kind not in known:
        raise EvaluationError(f"there is no player {kind or spec!r}{_hint(kind, known)}")
    player = _load(known[kind])
    options = _options(kind, player, words)
    try:
        made = player(**options)
    except (ValueError, OSError) as error:
        raise EvaluationError(f"player {spec}: {error}") from None
    distribution = known[kind].dist
    assert distribution is not None  # of an entry point that was found among the installed packages
    return LocalContender(made, distribution.version)


def _load(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        raise EvaluationError(
            f"the player {entry.name} needs {error.name}: install octofold[players]"
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
                raise EvaluationError(f"{kind}: {word!r} is not OPTION=VALUE{_hint(word, options)}")
            name, text = unnamed[0], word
        if name not in options:
            raise EvaluationError(f"{kind} has no option {name}{_hint(name, options)}")
        if name in values:
            raise EvaluationError(f"{kind}: {name} is given twice")
        read, what = _READ[types[name]]
        try:
            values[name] = read(text)
        except ValueError:
            raise EvaluationError(f"{kind}: {name}={text} is not {what}") from None
    missing = [name for name in _required(options.values()) if name not in values]
    if missing:
        raise EvaluationError(f"{kind} needs {missing[0]}: {kind}:{missing[0].upper()}")
    return values


def _required(options: Any) -> list[str]:
    def needed(option: Field[Any]) -> bool:
        return option.default is MISSING and option.default_factory is MISSING

    return [option.name for option in options if needed(option)]


def _hint(word: str, known: Any) -> str:
    names = sorted(known)
    close = get_close_matches(word, names, 1)
    there = f"{'is' if len(names) == 1 else 'are'} {', '.join(names) or 'none'}"
    return f"; did you mean {close[0]}? There {there}" if close else f"; there {there}"


class LocalSource:
    """Answers by a local player, in a thread of its own: what a `Client` is to a served model.

    A context manager; leaving it gives up what was not answered.
    """

    def __init__(self, contender: LocalContender) -> None:
        self.target = contender.title
        self._contender = contender
        self._left = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="octofold-player")

    def server_version(self) -> None:
        """No server, no version."""

    def begin_next_moves(self, boards: NDArray[np.uint8], *, with_probabilities: bool) -> "PendingMoves":
        """Begins to choose moves for `[N, 16]` boards and returns at once; there are no probabilities."""
        assert not with_probabilities
        return PendingMoves(self._thread.submit(self._answer, boards))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = True
        self._thread.shutdown(cancel_futures=True)

    def _answer(self, boards: NDArray[np.uint8]) -> NextMoves:
        started = time.monotonic()
        moves: Sequence[NDArray[np.int8]] = [
            self._some(boards[start : start + BOARDS_AT_ONCE])
            for start in range(0, len(boards), BOARDS_AT_ONCE)
        ]
        return NextMoves(
            moves=np.concatenate(moves),
            probabilities=None,
            model=self._contender.model,
            version=self._contender.package_version,
            queue_us=0,
            inference_us=round(1e6 * (time.monotonic() - started)),
        )

    def _some(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        if self._left:
            raise CancelledError
        return self._contender.player.next_moves(boards)


class PendingMoves:
    """Moves that a local player is at; implements `lockstep.Answer`."""

    def __init__(self, future: "Future[NextMoves]") -> None:
        self._future = future

    def result(self) -> NextMoves:
        return self._future.result()

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        self._future.add_done_callback(lambda _: callback())
