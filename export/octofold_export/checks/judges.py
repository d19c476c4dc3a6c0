"""A player that is known to be sensible: the strongest published model at hand, or a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from octofold_game.player import Player
from octofold_players.heuristic_expectimax import HeuristicExpectimaxPlayer

from octofold_export.checks.runner import FoldedGraph
from octofold_export.errors import ExportError, first_line


class PublishedModel:
    """A published version as a player."""

    def __init__(self, folder: Path, card: dict[str, Any]) -> None:
        precisions = card["precisions"]
        precision = "int8" if "int8" in precisions else "fp32"
        self.name = f"{card['name']} version {card['version']}"
        self.largest_exponent = int(card["largest_exponent"])
        self._graph = FoldedGraph(onnx.load(folder / precisions[precision]["file"]))

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """`[N, 16]` to moves `[N]`, -1 where no move is legal."""
        return self._graph.next_moves(boards)


def find_judge(models: Path) -> Player:
    """The model of `models` with the highest measured average score; a search if none was measured.

    Raises `ExportError` if the model's files are damaged.
    """
    measured = []
    for file in models.glob("*/*/card.json"):
        try:
            card = json.loads(file.read_text(encoding="utf-8"))
            if "tensors" not in card["precisions"]["fp32"]:
                measured.append((float(card["strength"]["average"]), file.parent))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # not measured, or not a card: no judge
    if not measured:
        return HeuristicExpectimaxPlayer(depth=1)
    _, strongest = max(measured)
    return read_judge(strongest)


def read_judge(folder: Path) -> Player:
    """The published version in `folder`. Raises `ExportError` if there is none."""
    try:
        return PublishedModel(folder, json.loads((folder / "card.json").read_text(encoding="utf-8")))
    except OSError as error:
        raise ExportError(f"{folder}: no published version ({error.strerror})") from error
    except Exception as error:  # onnxruntime's exceptions have no other base class
        raise ExportError(f"{folder}: not a published version ({first_line(error)})") from error
