"""A repository of a network and two players, which tests of what they have in common share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

from octofold_game.contract.model import CARD_FILE, ServedPlayer
from octofold_game.player import Player
from octofold_players.endgame.formation import SIX
from octofold_players.endgame.solver import solve
from octofold_players.endgame.tables import save_table
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer
from octofold_players.perimeter.player import PerimeterPlayer

from support.player_versions import write_version
from support.shipped import newest

MODELS = ("swift", "expectimax", "perimeter")
FLAGS = ("--players", "expectimax,perimeter")
"""Of a server, so that it loads the players when it starts."""
_DEPTH = 2


class ThreeModels(NamedTuple):
    """The repository, with version 1 of each model, and the players in this process."""

    folder: Path
    players: dict[str, Player]


def write_three_models(folder: Path) -> ThreeModels:
    """Write the models into `folder`; `perimeter` has small tables."""
    tables = folder / "tables"
    save_table(tables, SIX, 6, solve(SIX, 6))
    players: dict[str, Player] = {
        "expectimax": HeuristicExpectimaxPlayer(_DEPTH),
        "perimeter": PerimeterPlayer(tables, depth=_DEPTH),
    }
    for model in MODELS:
        write_again(folder / "models", model, 1, players)
    return ThreeModels(folder / "models", players)


def write_again(models: Path, model: str, version: int, players: dict[str, Player]) -> None:
    """Write a version elsewhere and rename it into its place, as the export does."""
    final, written = models / model / str(version), models.parent / "written" / model / str(version)
    if model in players:
        sources: dict[str, Path] = getattr(players[model], "served_files", dict)()
        files = {name: source.read_bytes() for name, source in sources.items()}
        write_version(written, ServedPlayer(kind=model, options={"depth": _DEPTH}), files, "heuristic points")
    else:
        shutil.copytree(newest(model), written)
        card = json.loads((written / CARD_FILE).read_text())
        (written / CARD_FILE).write_text(json.dumps({**card, "version": version}))
    final.parent.mkdir(parents=True, exist_ok=True)
    written.rename(final)
