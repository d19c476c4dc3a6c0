"""The options of the commands of `octofold-papers`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from octofold_game.commands.options import Folder, Seed, argument, one_of, option, whole
from octofold_training.flags import CONTINUES, Count, Device, Minutes, NetworkFlags

from octofold_papers.supervised.rows import ROWS


@dataclass
class ImitationFlags(NetworkFlags):
    """Options of `imitation`."""

    moves: Folder = option(Path("runs/moves"), "folder of `octofold-papers moves`")


@dataclass
class MovesFlags:
    """Options of `moves`."""

    logs: list[Path] = argument("LOG", "play log, or folder of `octofold evaluate --logs`", words="+")
    out: Folder = option(Path("runs/moves"), "the new folder")
    seed: Seed = option(0, "seed of the order")


@dataclass
class TuneFlags:
    """Options of `tune`."""

    depth: Annotated[int, whole(1, 12)] = option(2, "moves that the player looks ahead")
    heuristic: Literal["moravek", "nneonneo"] = option("nneonneo", "heuristic whose weights are the start")
    candidates: Count = option(600, "weights to try; the last ones tried together may exceed this")
    games: Count = option(300, "games that each candidate plays")
    seed: Annotated[int, whole(0, 2**31)] = option(1, "seed of the candidates and the games")
    state: Folder = option(Path("runs/tune"), "folder of the candidates")
    minutes: Minutes = option(math.inf, f"stop after this many minutes{CONTINUES}")


@dataclass
class TableFlags:
    """Options of `table`."""

    positions: Count = option(..., "positions that each network learns from, such as 5e6 (required)")
    moves: Folder = option(Path("runs/moves"), "folder of `octofold-papers moves`")
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
    minutes: Minutes = option(math.inf, f"stop after this many minutes{CONTINUES}")
    device: Device | None = option(
        None, "device for games, networks and updates (default: cuda if torch can use it, otherwise cpu)"
    )


@dataclass
class WindowFlags:
    """Options of `window`."""

    seed: Seed | None = option(
        None, "seed of the new tiles; equal seeds give equal tiles (default: a random one)"
    )
