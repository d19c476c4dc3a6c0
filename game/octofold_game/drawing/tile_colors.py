"""The colors of tiles, for every program that draws boards in color."""

from __future__ import annotations

from typing import NamedTuple


class TileColor(NamedTuple):
    """The colors of a tile, as `#rrggbb`."""

    text: str
    background: str


TILES = {
    1: TileColor("#776e65", "#eee4da"),
    2: TileColor("#776e65", "#ede0c8"),
    3: TileColor("#f9f6f2", "#f2b179"),
    4: TileColor("#f9f6f2", "#f59563"),
    5: TileColor("#f9f6f2", "#f67c5f"),
    6: TileColor("#f9f6f2", "#f65e3b"),
    7: TileColor("#776e65", "#edcf72"),
    8: TileColor("#776e65", "#edcc61"),
    9: TileColor("#776e65", "#edc850"),
    10: TileColor("#776e65", "#edc53f"),
    11: TileColor("#f9f6f2", "#c89a1b"),
}
"""By exponent; larger ones are all alike."""
LARGER = TileColor("#f9f6f2", "#2b2b2b")
EMPTY = "#cdc1b4"
"""The background of an empty cell in a picture."""
EMPTY_ON_DARK = "#3a352f"
"""The background of an empty cell on a terminal, most of which are dark."""


def color_of(exponent: int) -> TileColor:
    """The colors of the tile with this exponent, from 1."""
    return TILES.get(exponent, LARGER)
