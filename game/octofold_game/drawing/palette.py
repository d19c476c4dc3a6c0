"""The colors of pictures and reports: those of tiles are those of the page of `octofold-serve`."""

TILE_COLORS = (
    "#fdfdfb",
    "#d9e8e2",
    "#afd4ca",
    "#6fb5ab",
    "#2c7f7f",
    "#27718a",
    "#2f6690",
    "#3d5293",
    "#543f90",
    "#733a8c",
    "#963a80",
    "#b93e69",
    "#c64745",
    "#dd6f33",
    "#e79a1c",
    "#f4cf4b",
    "#fbf3cf",
)
"""The color of tile 2, of tile 4 and so on, on a light page."""

TILE_TEXT = (
    "#3a4045",
    "#2c4a45",
    "#173f38",
    "#0c2f2a",
    *["#ffffff"] * 9,
    "#2b1200",
    "#3a2500",
    *["#3f3000"] * 2,
)
"""The color of the number on each."""

SERIES = ("#3f76c9", "#cf7119", "#2a9472", "#a0509f", "#c4475f", "#7d7f87", "#8a7a1f", "#2b8fb0")
"""Colors of results in one picture; each is readable on white and on black."""

INK = "#22262e"
"""Text and axes. A report replaces it by the color of its own text."""


def tile_color(tile: int) -> str:
    """The color of a tile, such as 2048."""
    return TILE_COLORS[min(tile.bit_length() - 2, len(TILE_COLORS) - 1)]


def series_color(number: int) -> str:
    """The color of result `number`, from 0."""
    return SERIES[number % len(SERIES)]
