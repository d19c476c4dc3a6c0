"""A viewer of games in a browser: board, controls and curve, as JavaScript modules and style sheets.

The page of `octofold-serve` serves these files, and the HTML report of the client contains them, so both draw
boards alike.
"""

from __future__ import annotations

from importlib.resources import files

from octofold_game.drawing.palette import tiles_css


def viewer_files() -> dict[str, str]:
    """Return the text of every file by its name, such as `board.css`; `tiles.css` is the palette."""
    found = {
        file.name: file.read_text(encoding="utf-8")
        for file in files(__package__).iterdir()
        if file.name.endswith((".js", ".css"))
    }
    return {**found, "tiles.css": tiles_css()}
