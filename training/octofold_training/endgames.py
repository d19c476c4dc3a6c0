"""`octofold-train endgame`, which makes endgame tables, and `octofold-train trim`, which shrinks them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from octofold_game.episodes import Episodes
from octofold_game.system.files import nearest_existing
from octofold_players.downgrading import pack_downgraded
from octofold_players.endgame.formation import FORMATIONS, Formation, shape
from octofold_players.endgame.solver import BYTES_A_POSITION, solve
from octofold_players.endgame.tables import (
    DISK_BYTES_A_POSITION,
    known_positions,
    save_listed,
    save_table,
    table_folder,
)
from octofold_players.endgame.trimming import Visits
from octofold_players.perimeter.player import PerimeterPlayer

from octofold_training.errors import TrainingError
from octofold_training.run.progress import Forecast, ProgressLine

if TYPE_CHECKING:
    from octofold_training.cli import EndgameFlags, TrimFlags


def make_endgame_tables(flags: EndgameFlags) -> None:
    """Make the requested tables that the folder lacks, and print the number of positions of each table.

    Raises:
        OSError: the folder or a table cannot be written.
        TableFileError: an existing table is damaged. No table is made.
        TrainingError: a table needs more memory than the machine has, or all tables need more disk space than
            is left. No table is made.
    """
    requested = [(each, getattr(flags, each.name).bit_length() - 1) for each in FORMATIONS]
    existing = [known_positions(flags.state, *each) for each in requested]
    missing = [each for each, positions in zip(requested, existing, strict=True) if positions is None]
    for formation, largest in missing:
        needed = shape(formation, largest).positions * BYTES_A_POSITION
        _check_memory(f"--{formation.name} {1 << largest}", needed)
    _check_disk(flags.state, missing)
    flags.state.mkdir(parents=True, exist_ok=True)
    with ProgressLine() as line:
        for each, positions in zip(requested, existing, strict=True):
            folder = table_folder(flags.state, *each)
            if positions is None:
                print(f"{folder}: {_make_table(flags.state, *each, line):,} positions")
            else:
                print(f"{folder}: already exists, {positions:,} positions")


def trim_endgame_tables(flags: TrimFlags) -> None:
    """Copy the tables of a folder, with only the positions that occur in games.

    Raises:
        OSError: the new folder cannot be written.
        TableFileError: the folder has no tables, or a table is damaged.
        TrainingError: the new folder already exists, or the memory is too small. No game is played.
    """
    if flags.out.exists():
        raise TrainingError(f"{flags.out} already exists; name another --out")
    player = PerimeterPlayer(flags.tables)
    tables = player.endgames
    _check_memory("recording the visited positions", sum(table.shape.positions for table in tables))
    visits, episodes, done = Visits(tables, flags.seed), Episodes(flags.seed, range(flags.games)), 0
    with ProgressLine() as line:
        while len(episodes.boards):
            visits.play_on(pack_downgraded(episodes.boards, ahead=True))
            done += len(episodes.step(player.next_moves(episodes.boards)))
            line.show(f"{done} of {flags.games} games played", done / flags.games)
        line.show("writing")
        kept, partial = visits.listed(), flags.out.with_name(f"{flags.out.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            folders = [save_listed(partial, *each) for each in zip(tables, kept, strict=True)]
            partial.rename(flags.out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        for folder, positions in zip(folders, kept, strict=True):
            print(f"{flags.out / folder.name}: {len(positions):,} positions")


def _make_table(folder: Path, formation: Formation, largest: int, line: ProgressLine) -> int:
    """Solve and write a table. Return its number of positions."""
    name = table_folder(folder, formation, largest).name
    forecast = Forecast()

    def report(done: float) -> None:
        line.show(f"{name}: solving", done, forecast.left(time.monotonic(), done, 1.0))

    solved = solve(formation, largest, report)
    line.show(f"{name}: writing")
    return save_table(folder, formation, largest, solved)


def _check_memory(work: str, needed: float) -> None:
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > installed:
        raise TrainingError(
            f"{work} takes about {needed / 1e9:.1f} GB of memory; this machine has {installed / 1e9:.1f} GB"
        )


def _check_disk(folder: Path, tables: Sequence[tuple[Formation, int]]) -> None:
    """Raise `TrainingError` if the tables do not fit on the disk. Solving them first would waste minutes."""
    needed = sum(shape(*each).positions * DISK_BYTES_A_POSITION for each in tables)
    free = shutil.disk_usage(nearest_existing(folder)).free
    if needed > free:
        raise TrainingError(
            f"{folder}: the tables need {needed / 1e9:.1f} GB; the disk has {free / 1e9:.1f} GB left; name "
            "another --out"
        )
