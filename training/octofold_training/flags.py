"""The options of the commands of `octofold-train`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from octofold_game.commands.options import Folder, Kind, Seed, number, option


def _count(text: str) -> int:
    count = float(text)
    if not (count >= 1 and count.is_integer()):
        raise ValueError
    return int(count)


CONTINUES = "; the same command continues later (default: no limit)"
Count = Annotated[int, Kind(_count, "a whole number from 1", "N", is_plain=True)]
Minutes = Annotated[float, Kind(number(0, math.inf).parse, "a number of minutes, from 0", "M", is_plain=True)]
Device = Literal["cpu", "cuda"]
Tile = Literal[32, 64, 128, 256, 512, 1024, 2048]


@dataclass
class RunFlags:
    """Options of every command that trains. Folders without a flag are named after the recipe."""

    recipe: Path = option(
        None, "TOML file with the network and the options of its training", metavar="recipe", is_argument=True
    )
    keys: bool = option(False, "print every key of a recipe with its default, and exit")
    state: Folder = option(None, "folder of the run (default: runs/NAME, with the recipe's name)")
    minutes: Minutes = option(
        math.inf,
        "stop after this many minutes of learning, not counting games before the run, games that show the "
        f"strength, and saving{CONTINUES}",
    )


@dataclass
class NetworkFlags(RunFlags):
    """Options of every command that trains a neural network."""

    checkpoint: Folder = option(
        None, "folder for the trained network (default: checkpoints/NAME, with the recipe's name)"
    )
    device: Device | None = option(
        None, "device for games, networks and updates (default: cuda if torch can use it, otherwise cpu)"
    )


@dataclass
class StudentFlags(NetworkFlags):
    """Options of `student`."""

    teacher: Folder = option(Path("runs/teacher"), "folder of the n-tuple network to learn from")


@dataclass
class EndgameFlags:
    """Options of `endgame`."""

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
    """Options of `trim`."""

    tables: Path = option(Path("runs/endgame"), "folder of the tables")
    out: Folder = option(Path("runs/endgame-small"), "the new folder")
    games: Count = option(500, "games to play")
    seed: Seed = option(1, "seed of the games")
