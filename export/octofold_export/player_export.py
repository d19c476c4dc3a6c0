"""Publishes a local player as a version of a model: the player's options and files, with a card.

It is published only if the player that a server would load from these files makes the same moves. Neither
torch nor onnx is needed.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, get_args

import numpy as np
from msgspec.structs import replace
from numpy.lib import format as npy
from numpy.typing import NDArray
from octofold_game.contract.model import (
    CARD_FILE,
    PLAYER_CARD_FORMAT,
    README_FILE,
    Card,
    ListedFile,
    ServedPlayer,
    encode_card,
)
from octofold_game.contract.searches import FileSource, Limits, Option, Search
from octofold_game.errors import OctofoldError
from octofold_game.player_specs import MadePlayer, SpecError, make_player
from octofold_game.system.processors import usable_cores
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer

from octofold_export.checks.calibration_and_comparison_boards import boards_from_games
from octofold_export.errors import ExportError, GateError, WrongUsage
from octofold_export.printing import Report
from octofold_export.publishing.published_card import file_digest
from octofold_export.publishing.readme import render_readme
from octofold_export.publishing.repository import (
    ContentOrPath,
    VersionExistsError,
    check_publishable,
    next_version,
    publish,
)

_CHECKED_BOARDS = 64
_BOARDS_AT_ONCE = 4
_SECONDS_TO_CHECK = 5.0
_SEED = 1


def export_player(spec: str, name: str, models: Path, version: int | None, report: Report) -> Path:
    """Publish the player `spec`, such as `expectimax:depth=4`, and return the version's folder.

    An error leaves no files behind. The version gets hard links to the player's files on disk, or copies if
    they are on another file system.

    Raises:
        WrongUsage: the spec names no player, or has wrong options.
        ExportError: the version exists, a file is wrong, or a server cannot run the player.
        GateError: the player makes other moves when a server loads it.
    """
    check_publishable(models, name, version)
    try:
        made = make_player(spec)
        served = getattr(made.player, "served", None)
        if served is None:
            raise ExportError(f"player {made.kind} cannot be published: its class lacks the method `served`")
        sources = _sources(made.player)
        options = _options(made.player)
        if sources:
            report(f"reading the player's files ({len(sources)})")
        search: Search = served(options, _contents(sources), usable_cores())
        search.prepare()
        boards = _check_moves(made, search, report)
    except OSError as error:
        raise ExportError(f"{error.filename or spec}: {error.strerror}") from error
    except SpecError as error:
        raise WrongUsage(str(error)) from error
    except OctofoldError as error:
        raise error if isinstance(error, ExportError) else ExportError(str(error)) from error
    report(f"the served player makes the same moves as {spec} on {boards} boards")
    listed = {
        name: ListedFile(
            file=name,
            sha256=file_digest(source) if isinstance(source, Path) else hashlib.sha256(source).hexdigest(),
        )
        for name, source in sources.items()
    }
    card = Card(
        format=PLAYER_CARD_FORMAT,
        name=name,
        version=version or next_version(models, name),
        checkpoint_sha256=getattr(made.player, "sha256", ""),
        value_unit=search.value_unit,
        largest_exponent=search.largest_exponent,
        player=ServedPlayer(kind=made.kind, options=options, files=listed),
        exporter=installed_version("octofold"),
    )
    while True:
        files: dict[str, ContentOrPath] = {
            **sources,
            CARD_FILE: encode_card(card),
            README_FILE: render_readme(card),
        }
        try:
            return publish(models, name, card.version, files)
        except VersionExistsError:
            if version is not None:
                raise
            card = replace(card, version=next_version(models, name))


def _options(player: Any) -> dict[str, Option]:
    """Return the options of a player that differ from their defaults, except paths."""
    found = {option.name: getattr(player, option.name) for option in fields(player) if option.init}
    defaults = {option.name: option.default for option in fields(player)}
    chosen = {name: value for name, value in found.items() if value != defaults[name]}
    options = {name: value for name, value in chosen.items() if not isinstance(value, Path)}
    for name, value in options.items():
        if not isinstance(value, get_args(Option)):
            raise ExportError(f"option {name}: a card cannot contain the value {value!r}")
    return options


def _sources(player: Any) -> dict[str, ContentOrPath]:
    """Return the files of a player by name, as paths or as contents."""
    sources: Mapping[str, FileSource] = player.served_files() if hasattr(player, "served_files") else {}
    return {
        name: _npy_bytes(source) if isinstance(source, np.ndarray) else source
        for name, source in sources.items()
    }


def _npy_bytes(array: NDArray[Any]) -> memoryview:
    content = io.BytesIO()
    npy.write_array(content, array, version=(1, 0), allow_pickle=False)
    return content.getbuffer()


def _contents(sources: Mapping[str, ContentOrPath]) -> dict[str, NDArray[np.uint8]]:
    """Return the bytes of the files by name; files on disk are mapped into memory."""
    return {
        name: np.memmap(source, np.uint8, mode="r")
        if isinstance(source, Path) and source.stat().st_size
        else np.frombuffer(b"" if isinstance(source, Path) else source, np.uint8)
        for name, source in sources.items()
    }


def _check_moves(made: MadePlayer, search: Search, report: Report) -> int:
    """Return the number of compared boards; raise `GateError` if a server's `search` makes another move."""
    sensible = HeuristicExpectimaxPlayer(depth=1)
    boards = boards_from_games(sensible, _CHECKED_BOARDS, search.largest_exponent, _SEED, report)
    started, checked = time.monotonic(), 0
    while checked < len(boards) and time.monotonic() - started < _SECONDS_TO_CHECK:
        some = boards[checked : checked + _BOARDS_AT_ONCE]
        own = made.player.next_moves(some)
        found = search.find(some, Limits()).moves
        if (different := np.flatnonzero(own != found)).size:
            board = some[different[0]].tolist()
            raise GateError(
                f"the served player and the local player make different moves on the board {board}"
            )
        checked += len(some)
    return checked
