"""The palette of all boards, pictures and reports, with colors for dark mode."""

from __future__ import annotations

from typing import NamedTuple


class TileColor(NamedTuple):
    """The colors of a tile, as `#rrggbb`."""

    text: str
    background: str


_TILES = (
    ("#3a4045", "#fdfdfb", "#dfe6e4", "#3b464c"),
    ("#2c4a45", "#d9e8e2", "#e4eeea", "#43585a"),
    ("#173f38", "#afd4ca", "#eef6f3", "#457370"),
    ("#0c2f2a", "#6fb5ab", "#f4faf8", "#3b7c79"),
    ("#ffffff", "#2c7f7f"),
    ("#ffffff", "#27718a"),
    ("#ffffff", "#2f6690"),
    ("#ffffff", "#3d5293"),
    ("#ffffff", "#543f90"),
    ("#ffffff", "#733a8c"),
    ("#ffffff", "#963a80"),
    ("#ffffff", "#b93e69"),
    ("#ffffff", "#c64745"),
    ("#2b1200", "#dd6f33"),
    ("#3a2500", "#e79a1c"),
    ("#3f3000", "#f4cf4b"),
    ("#3f3000", "#fbf3cf"),
)
"""Colors of the number and the background of tile 2, tile 4 and so on, followed by the colors in dark mode if
they differ."""

TILE_COLORS = tuple(tile[1] for tile in _TILES)
"""The background colors of tile 2, tile 4 and so on, in light mode."""
TILE_TEXT = tuple(tile[0] for tile in _TILES)
"""The colors of the numbers on tile 2, tile 4 and so on, in light mode."""

FRAME, FRAME_ON_DARK = "#e6e2d9", "#20242b"
"""The background around the cells of a board, in light mode and in dark mode."""
EMPTY, EMPTY_ON_DARK = "#f2efe8", "#2a2f38"
"""The background of an empty cell, in light mode and in dark mode."""

SERIES = ("#3f76c9", "#cf7119", "#2a9472", "#a0509f", "#c4475f", "#7d7f87", "#8a7a1f", "#2b8fb0")
"""Colors of the results in a picture, such as its curves; all are readable on white and on black."""

INK = "#22262e"
"""Color of text and axes. A report replaces it with the color of its own text."""


def tile_color(tile: int) -> str:
    """Return the background color of a tile, such as 2048."""
    return TILE_COLORS[min(tile.bit_length() - 2, len(TILE_COLORS) - 1)]


def series_color(number: int) -> str:
    """Return the color of result `number`, counted from 0; the colors repeat."""
    return SERIES[number % len(SERIES)]


def color_of(exponent: int, *, on_dark: bool = False) -> TileColor:
    """Return the colors of the tile with this exponent. Tiles above 131072 have the colors of 131072."""
    text, background, *dark = _TILES[min(exponent, len(_TILES)) - 1]
    return TileColor(*dark) if on_dark and dark else TileColor(text, background)


def tiles_css() -> str:
    """Return a style sheet with the palette: `--t1` to `--t17`, `--board`, `--cell`, classes for tiles."""
    pairs = [(color_of(n), color_of(n, on_dark=True)) for n in range(1, len(_TILES) + 1)]
    lines = [
        ":root {",
        f"  --board: {_either(FRAME, FRAME_ON_DARK)};",
        f"  --cell: {_either(EMPTY, EMPTY_ON_DARK)};",
        *(
            f"  --t{n}: {_either(light.background, dark.background)};"
            for n, (light, dark) in enumerate(pairs, 1)
        ),
        "}",
        *(
            f".t{n} {{ background: var(--t{n}); color: {_either(light.text, dark.text)}; }}"
            for n, (light, dark) in enumerate(pairs, 1)
        ),
    ]
    return "\n".join([*lines, ""])


def _either(light: str, dark: str) -> str:
    return light if light == dark else f"light-dark({light}, {dark})"
