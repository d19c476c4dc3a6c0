"""`octofold-train endgame`: makes endgame tables, one goal after another."""

from __future__ import annotations

import argparse

from octofold_players.endgame.formation import formation
from octofold_players.endgame.solver import Endgame, solve
from octofold_players.endgame.tables import save_table, table_folder

from octofold_training.progress import ProgressLine

_SINGLE_FROM = 5
_SINGLE_BELOW_GOAL = 3
"""Tiles this close to the goal, and no smaller than 32, may not be scattered. Of the chance of a 128 from
empty cells, this takes less than 0.0001, and of the positions more than half."""


def make_endgame_tables(parsed: argparse.Namespace) -> None:
    """Make the tables that the flags name and that their folder lacks, and print what they hold."""
    kept = formation(parsed.kept)
    with ProgressLine() as line:
        for goal in sorted(set(parsed.goals)):
            endgame = Endgame(kept, goal, max(_SINGLE_FROM, goal - _SINGLE_BELOW_GOAL))
            if table_folder(parsed.state, endgame).exists():
                print(f"{parsed.state}: has a table of {1 << goal} already")
                continue

            def report(doing: str, layer: int, positions: int, goal: int = goal) -> None:
                line.show(f"tile {1 << goal}: {doing} layer {layer:,}, {positions / 1e6:.1f}M positions")

            written = save_table(parsed.state, endgame, solve(endgame, report), parsed.least_chance)
            print(f"{parsed.state}: tile {1 << goal}, {written:,} positions")
