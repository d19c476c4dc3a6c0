"""`octofold replay --out`: a game as a GIF and as text, in bounded size."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from octofold_client.cli.replay import chosen
from octofold_client.cli.replay_export import MOST_FRAMES, SENSIBLE_FRAMES, ExportFlags, positions
from octofold_client.contenders.advice import local_adviser
from octofold_client.errors import EvaluationError
from octofold_game.drawing.board_picture import CELL_PIXELS
from octofold_game.drawing.board_text import board_text
from octofold_game.drawing.palette import EMPTY, color_of
from octofold_game.trajectories import Walk
from PIL import Image, ImageSequence
from support.commands import failure, octofold


def walk_of(games: Path, game: int) -> Walk:
    return Walk.of(chosen(games / "games.replay", game))


def colors_of(frame: Image.Image) -> list[str]:
    """The colors of the sixteen cells, a little inside their upper left corners."""
    pixels = np.asarray(frame.convert("RGB"))
    step = CELL_PIXELS + 6
    board = pixels[-8 - 4 * step :, 8 + 6 :]
    return [
        "#" + board[row * step + 8, column * step + 8].tobytes().hex() for row, column in np.ndindex(4, 4)
    ]


def apart(one: str, other: str) -> int:
    return max(abs(int(one[i : i + 2], 16) - int(other[i : i + 2], 16)) for i in (1, 3, 5))


def test_a_gif_shows_the_boards_of_the_game(games: Path, tmp_path: Path) -> None:
    walk = walk_of(games, 3)
    last = len(walk.moves)
    flags = ["--game", "3", "--move", "20", "--every", "9", "--speed", "4"]
    done = octofold("replay", games, "--out", tmp_path / "game.gif", *flags)
    assert done.returncode == 0, done.stderr
    rows = [*range(20, last, 9), last]
    assert done.stdout.startswith(
        f"{tmp_path / 'game.gif'}: {len(rows)} positions, move 20 to {last} (every 9 moves"
    )
    with Image.open(tmp_path / "game.gif") as gif:
        for row, frame in zip(rows, ImageSequence.Iterator(gif), strict=True):
            assert frame.info["duration"] == (3_000 if row == last else 250)
            expected = [color_of(each).background if each else EMPTY for each in walk.boards[row].tolist()]
            assert max(map(apart, colors_of(frame), expected)) <= 4


def test_a_text_has_every_position_and_what_the_adviser_thinks(games: Path, tmp_path: Path) -> None:
    walk = walk_of(games, 5)
    file = tmp_path / "game.txt"
    flags = ["--game", "5", "--move", "3", "--to", "8", "--judge", "expectimax:depth=1"]
    done = octofold("replay", games, "--out", file, *flags)
    assert done.returncode == 0, done.stderr
    title, *blocks = file.read_text().split("\n\n")
    assert title.startswith("game 5 of seed 7, ")
    assert len(blocks) == 6
    advise = local_adviser("expectimax:depth=1").advise
    for row, block in zip(range(3, 9), blocks, strict=True):
        assert block.startswith(f"move {row} of {len(walk.moves)}\nscore {walk.scores[row]:,}, next: ")
        assert board_text(walk.boards[row]) in block
        agrees = advise(walk.boards[row]).choice == walk.moves[row]
        assert ("is also the choice of expectimax" in block) == agrees
        assert ("says expectimax" in block) != agrees


def asked(out: str, **flags: Any) -> ExportFlags:
    return ExportFlags(out=Path(out), **flags)


def test_a_long_game_makes_a_gif_of_sensible_size_unless_more_is_asked_for() -> None:
    for moves in (1, 298, 299, 300, 600, 20_000, 1_000_000):
        rows = positions(asked("a.gif"), moves)
        assert len(rows) <= SENSIBLE_FRAMES
        assert (rows[0], rows[-1]) == (0, moves)
        assert len(positions(asked("a.txt"), min(moves, 20_000))) == min(moves, 20_000) + 1
    assert len(positions(asked("a.gif"), 299)) == 300
    assert positions(asked("a.gif", move=7, to=7), 20).tolist() == [7]
    assert positions(asked("a.gif", move=4, to=9, every=2), 20).tolist() == [4, 6, 8, 9]
    with pytest.raises(
        EvaluationError, match=r"20,001 positions are too many for a\.gif .*: use --every 21"
    ) as error:
        positions(asked("a.gif", every=1), 20_000)
    assert "--move and --to" in str(error.value)
    assert len(positions(asked("a.gif", every=21), 20_000)) <= MOST_FRAMES


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--out", "a.txt", "--target", "127.0.0.1:9"], 2, "--target needs --judge NAME"),
        (["--out", "game.mp4"], 2, "'game.mp4' does not end in .gif or .txt"),
        (["--to", "5"], 2, "--to needs --out"),
        (["--every", "0", "--out", "a.gif"], 2, "--every must be an integer from 1 to"),
        (["--out", "a.txt", "--speed", "3"], 2, "--speed is for a GIF"),
        (["--out", "a.gif", "--speed", "51"], 2, "--speed must be an integer from 1 to 50, got '51'"),
        (["--out", "a.gif", "--move", "9", "--to", "5"], 2, "--to 5 is before --move 9"),
        (["--out", "a.gif", "--move", "999999"], 1, "--move 999999 is after the end of the game"),
        (["--out", "absent/a.txt"], 2, "--out: there is no absent"),
    ],
)
def test_a_wrong_export_is_refused_in_one_line_and_writes_nothing(
    flags: list[str], code: int, message: str, games: Path, tmp_path: Path
) -> None:
    assert message in failure("replay", games, *flags, folder=tmp_path, code=code)
    assert list(tmp_path.iterdir()) == []
