"""Versions of the kinds of players in `support/kinds`, and how a server finds these kinds."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import CARD_FILE, Card, ListedFile, ServedPlayer, encode_card
from octofold_game.contract.searches import Option
from octofold_game.rules import legal_moves

KINDS = Path(__file__).parent / "kinds"
PROGRAM = Path(__file__).parents[1] / "server" / "player_server.py"
"""The octofold-serve that finds the kinds."""
TABLE = bytes([30, 10, 20, 40])


def find_kinds() -> None:
    """Let this process find the kinds."""
    if str(KINDS) not in sys.path:
        sys.path.append(str(KINDS))


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
    """Write a version with this table; keywords are options of the player."""
    folder = repository / name / str(version)
    folder.mkdir(parents=True)
    (folder / "table.bin").write_bytes(table)
    listed = ListedFile(file="table.bin", sha256=digest or hashlib.sha256(table).hexdigest())
    player = ServedPlayer(kind=kind, options=options, files={"table": listed})
    unit = "points" if options.get("values", True) else None
    card = Card(
        format=2,
        name=name,
        version=version,
        largest_exponent=largest_exponent,
        value_unit=unit,
        player=player,
        strength=None,
    )
    (folder / CARD_FILE).write_bytes(encode_card(card))
    return folder


def expected_moves(boards: NDArray[np.uint8], table: bytes = TABLE) -> NDArray[np.int64]:
    """What the fake player answers."""
    worth = np.where(legal_moves(boards), np.frombuffer(table, np.uint8).astype(int), -1)
    return np.where(worth.max(axis=1) >= 0, worth.argmax(axis=1), -1)
