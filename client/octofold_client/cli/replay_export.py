"""`octofold replay --out`: writes a part of a game as an animated GIF or as text."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from octofold_game.commands.options import Kind, WrongValue, option
from octofold_game.commands.suggestions import missing
from octofold_game.drawing.board_text import board_text
from octofold_game.rules import MOVE_NAMES
from octofold_game.system.files import whole_file
from octofold_game.trajectories import Walk
from rich.console import Console

from octofold_client.cli.arguments import MOST_GAMES
from octofold_client.contenders.advice import Advice, Adviser
from octofold_client.errors import EvaluationError, UsageError
from octofold_client.extras import needing
from octofold_client.terminal.boards import ARROWS, remark
from octofold_client.terminal.display import count_on, display_on

GIF, TEXT = ".gif", ".txt"
SENSIBLE_FRAMES, MOST_FRAMES = 300, 1_000
"""Frames of a GIF that are written unless the command asks for others, and at most; one needs some 7 KB."""
MOST_POSITIONS = 1_000_000
_FASTEST = 50
"""Positions per second; browsers show faster GIFs slowly."""
_OPTIONS = ("to", "every", "speed")


def _file(text: str) -> Path:
    file = Path(text)
    if file.suffix not in (GIF, TEXT) or not file.stem:
        raise WrongValue(f"{text!r} does not end in {GIF} or {TEXT}")
    return file


ExportFile = Annotated[Path, Kind(_file, "a file", "FILE", is_plain=True)]


@dataclass(kw_only=True)
class ExportFlags:
    """Which part of a game to write, and where."""

    move: int = option(0, "start after N moves", 0, MOST_GAMES)
    out: ExportFile | None = option(
        None,
        "write the game to FILE.gif (needs the extra plots) or FILE.txt, from the position of --move on",
        begins="export",
    )
    to: int | None = option(None, "stop after N moves (default: the end)", 0, MOST_GAMES)
    every: int | None = option(
        None,
        f"write every Nth position and the last one (default: so that a GIF has at most {SENSIBLE_FRAMES} "
        "frames; 1 for text)",
        1,
        MOST_GAMES,
    )
    speed: int | None = option(None, "positions per second of a GIF (default: 5)", 1, _FASTEST)

    def check_export(self) -> None:
        """Check that the flags fit each other.

        Raises:
            UsageError: they do not.
        """
        if self.out is None:
            for name in _OPTIONS:
                if getattr(self, name) is not None:
                    raise UsageError(f"--{name} needs --out")
        elif not self.out.parent.is_dir():
            raise UsageError(f"--out: {missing(self.out.parent)}")
        elif self.speed is not None and self.out.suffix != GIF:
            raise UsageError("--speed is for a GIF")
        elif self.to is not None and self.to < self.move:
            raise UsageError(f"--to {self.to} is before --move {self.move}")


def export(options: ExportFlags, title: str, walk: Walk, ask: Adviser | None) -> None:
    """Write the positions of the flags, and print what was written.

    Raises:
        EvaluationError: the game is shorter, the GIF would have too many frames, or Pillow is not installed.
        OSError: the file cannot be written.
    """
    assert options.out is not None
    file = options.out
    rows = positions(options, len(walk.moves))
    scenes = (_scene(walk, row, ask) for row in rows.tolist())
    with count_on(display_on(Console(stderr=True)), len(rows), f"exporting {title}", "positions") as done:
        if file.suffix == GIF:
            with needing("plots"):
                from octofold_client.studies.animation import save_gif
            save_gif(file, _counted(scenes, done), len(rows), options.speed or 5)
        else:
            with whole_file(file) as partial, partial.open("w", encoding="utf-8") as opened:
                opened.write(f"{title}\n")
                for board, lines in _counted(scenes, done):
                    opened.write("\n" + "\n".join([*lines, board_text(board)]) + "\n")
    step = int(rows[1] - rows[0]) if len(rows) > 1 else 1
    kept = "every move" if step == 1 else f"every {step:,} moves; --every, --move and --to choose others"
    print(f"{file}: {len(rows):,} positions, move {rows[0]:,} to {rows[-1]:,} ({kept})")


def positions(options: ExportFlags, moves: int) -> NDArray[np.int64]:
    """The numbers of moves before the positions to write, of a game of `moves` moves.

    Raises:
        EvaluationError: the game is shorter, or the GIF would have too many frames.
    """
    last = moves if options.to is None else options.to
    for flag, number in (("--move", options.move), ("--to", last)):
        if number > moves:
            raise EvaluationError(f"{flag} {number} is after the end of the game, which has {moves:,} moves")
    gif = options.out is not None and options.out.suffix == GIF
    span = last - options.move
    every = options.every or (1 + (span - 1) // (SENSIBLE_FRAMES - 1) if gif and span else 1)
    rows = np.append(np.arange(options.move, last, every), last)
    most = MOST_FRAMES if gif else MOST_POSITIONS
    if len(rows) > most:
        least = 1 + (span - 1) // (most - 1)
        raise UsageError(
            f"{len(rows):,} positions are too many for {options.out} (at most {most:,}): "
            f"use --every {least}, or a smaller part with --move and --to"
        )
    return rows


Scene = tuple[NDArray[np.uint8], list[str]]
"""A board `[16]`, and what is said about it."""


def _scene(walk: Walk, row: int, ask: Adviser | None) -> Scene:
    last = len(walk.moves)
    made = None if row == last else int(walk.moves[row])
    coming = "the game is over" if made is None else f"next: {MOVE_NAMES[made]}"
    lines = [f"move {row:,} of {last:,}", f"score {walk.scores[row]:,}, {coming}"]
    if ask is not None and made is not None:
        thought = ask(walk.boards[row])
        lines.append(_plain(remark(thought, made)) if isinstance(thought, Advice) else str(thought))
    return walk.boards[row], lines


def _plain(text: str) -> str:
    """A text without the arrows, which not every font has."""
    for arrow in ARROWS:
        text = text.replace(f"{arrow} ", "")
    return text


def _counted(scenes: Iterator[Scene], done: Callable[[int], None]) -> Iterator[Scene]:
    for scene in scenes:
        yield scene
        done(1)
