"""The options of the commands of `octofold-train`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from octofold_game.commands.options import Folder, Kind, Seed, argument, number, one_of, option, whole

from octofold_training.published.rows import ROWS


def _count(text: str) -> int:
    count = float(text)
    if not (count >= 1 and count.is_integer()):
        raise ValueError
    return int(count)


_CONTINUES = "; the same command continues later (default: no limit)"
Count = Annotated[int, Kind(_count, "a whole number from 1", "N", is_plain=True)]
Minutes = Annotated[float, Kind(number(0, math.inf).parse, "a number of minutes, from 0", "M", is_plain=True)]
Device = Literal["cpu", "cuda"]
Tile = Literal[32, 64, 128, 256, 512, 1024, 2048]


@dataclass
class RunFlags:
    """What every run has. Its folders are None until its recipe is read, after which they are named."""

    recipe: Path = option(
        None, "TOML file; training/recipes has some for each command", metavar="recipe", is_argument=True
    )
    keys: bool = option(False, "print every key of a recipe with its default, and exit")
    state: Folder = option(None, "folder of the run (default: runs/NAME, with the recipe's name)")
    minutes: Minutes = option(
        math.inf,
        "stop after this many minutes of learning, not counting games before the run, games that show the "
        f"strength, and saving{_CONTINUES}",
    )


@dataclass
class NetworkFlags(RunFlags):
    """What every run of a neural network has."""

    checkpoint: Folder = option(
        None, "folder for the trained network (default: checkpoints/NAME, with the recipe's name)"
    )
    device: Device | None = option(
        None, "device for games, networks and updates (default: cuda if torch can use it, otherwise cpu)"
    )


@dataclass
class StudentFlags(NetworkFlags):
    """Of `student`."""

    teacher: Folder = option(Path("runs/teacher"), "folder of the n-tuple network to learn from")


@dataclass
class ImitationFlags(NetworkFlags):
    """Of `imitation`."""

    moves: Folder = option(Path("runs/moves"), "folder of `octofold-train moves`")


@dataclass
class MovesFlags:
    """Of `moves`."""

    logs: list[Path] = argument("LOG", "play log, or folder of `octofold record`", words="+")
    out: Folder = option(Path("runs/moves"), "the new folder")
    seed: Seed = option(0, "seed of the order")


@dataclass
class EndgameFlags:
    """Of `endgame`."""

    five: Tile = option(
        256,
        "the largest tile to make beside five large tiles; more than 256 takes four times the time and "
        "memory, and plays no better",
        metavar="TILE",
    )
    six: Tile = option(1024, "the largest tile to make beside six large tiles", metavar="TILE")
    state: Folder = option(Path("runs/endgame"), "folder of the tables", flag="--out")


@dataclass
class TrimFlags:
    """Of `trim`."""

    tables: Path = option(Path("runs/endgame"), "folder of the tables")
    out: Folder = option(Path("runs/endgame-small"), "the new folder")
    games: Count = option(500, "games to play")
    seed: Seed = option(1, "seed of the games")


@dataclass
class TuneFlags:
    """Of `tune`."""

    depth: Annotated[int, whole(1, 12)] = option(2, "moves that the player looks ahead")
    heuristic: Literal["moravek", "nneonneo"] = option("nneonneo", "heuristic whose weights are the start")
    candidates: Count = option(600, "weights to try; the last ones tried together may exceed this")
    games: Count = option(300, "games that each candidate plays")
    seed: Annotated[int, whole(0, 2**31)] = option(1, "seed of the candidates and the games")
    state: Folder = option(Path("runs/tune"), "folder of the candidates")
    minutes: Minutes = option(math.inf, f"stop after this many minutes{_CONTINUES}")


@dataclass
class TableFlags:
    """Of `table`."""

    positions: Count = option(..., "positions that each network learns from, such as 5e6 (required)")
    moves: Folder = option(Path("runs/moves"), "folder of `octofold-train moves`")
    teacher: Folder | None = option(
        None,
        "instead of moves: folder of an n-tuple network that plays beside the training, two moves deep; for "
        "a GPU",
    )
    state: Folder = option(Path("runs/table"), "folder of the runs, the games and the tables", flag="--out")
    games: Count = option(1000, "games that each network plays each way")
    rows: list[Annotated[str, one_of(*ROWS)]] = option(
        [], f"only these networks of {', '.join(ROWS)} (default: all)", metavar="NAME", words="+"
    )
    minutes: Minutes = option(math.inf, f"stop after this many minutes{_CONTINUES}")
    device: Device | None = option(
        None, "device for games, networks and updates (default: cuda if torch can use it, otherwise cpu)"
    )
