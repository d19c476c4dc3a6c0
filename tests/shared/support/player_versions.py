"""Versions of the kinds of players in `support/kinds`, and how a server finds these kinds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from octofold_game.contract.model import (
    CARD_FILE,
    PLAYER_CARD_FORMAT,
    Card,
    ListedFile,
    ServedPlayer,
    encode_card,
)
from octofold_game.contract.searches import Option
from octofold_game.rules import legal_moves

KINDS = Path(__file__).parent / "kinds"
PROGRAM = Path(__file__).parents[2] / "server" / "player_server.py"
"""The octofold-serve that finds the kinds."""
TABLE = bytes([30, 10, 20, 40])


def write_player(
    repository: Path,
    name: str = "player",
    version: int = 1,
    *,
    kind: str = "fake",
    table: bytes = TABLE,
    digest: str | None = None,
    largest_exponent: int = 15,
    **options: Option,
) -> Path:
    """Write a version of a fake player with this table; keywords are options of the player."""
    return write_version(
        repository / name / str(version),
        ServedPlayer(kind=kind, options=options),
        {"table": table},
        "points" if options.get("values", True) else None,
        largest_exponent,
        digest,
    )


def write_version(
    folder: Path,
    player: ServedPlayer,
    files: Mapping[str, bytes],
    value_unit: str | None,
    largest_exponent: int = 15,
    digest: str | None = None,
) -> Path:
    """Write a version of any player, REPOSITORY/NAME/VERSION, and the card for it.

    The card lists the files with their digests, or with `digest`.
    """
    folder.mkdir(parents=True)
    listed = {}
    for name, content in files.items():
        (folder / f"{name}.bin").write_bytes(content)
        listed[name] = ListedFile(file=f"{name}.bin", sha256=digest or hashlib.sha256(content).hexdigest())
    card = Card(
        format=PLAYER_CARD_FORMAT,
        name=folder.parent.name,
        version=int(folder.name),
        largest_exponent=largest_exponent,
        value_unit=value_unit,
        player=replace(player, files=listed),
        strength=None,
    )
    (folder / CARD_FILE).write_bytes(encode_card(card))
    return folder


def expected_moves(boards: NDArray[np.uint8], table: bytes = TABLE) -> NDArray[np.int64]:
    """Return the moves that the fake player makes on boards `[N, 16]`."""
    worth = np.where(legal_moves(boards), np.frombuffer(table, np.uint8).astype(int), -1)
    return np.where(worth.max(axis=1) >= 0, worth.argmax(axis=1), -1)
