"""The judge: a sensible player, which is the strongest published model available or a search."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from octofold_game.contract.model import CARD_FILE, Card, CardError, read_card
from octofold_game.player import Player
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer

from octofold_export.checks.runner import FoldedGraph
from octofold_export.errors import ExportError, first_line


class PublishedModel:
    """A published version as a player."""

    def __init__(self, folder: Path, card: Card) -> None:
        self.name = f"{card.name} version {card.version}"
        self.largest_exponent = card.largest_exponent
        file = card.precisions.get("int8") or card.precisions["fp32"]
        self._graph = FoldedGraph(onnx.load(folder / file.file))

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Choose moves `[N]` for boards `[N, 16]`; -1 where no move is legal."""
        return self._graph.next_moves(boards)


def find_judge(models: Path) -> Player:
    """Choose the model with the highest measured average score, or a search if no model was measured.

    Raises:
        ExportError: the model's files are damaged.
    """
    measured = []
    for file in models.glob(f"*/*/{CARD_FILE}"):
        try:
            card = read_card(file.parent)
        except CardError:
            continue  # not measured
        tensors = any(graph.tensors for graph in card.precisions.values())
        if card.strength is not None and card.player is None and not tensors:
            measured.append((card.strength.average, file.parent))
    if not measured:
        return HeuristicExpectimaxPlayer(depth=1)
    _, strongest = max(measured)
    return read_judge(strongest)


def read_judge(folder: Path) -> Player:
    """Load the published version in `folder`.

    Raises:
        ExportError: the folder contains no version, or its graph cannot be loaded.
    """
    try:
        card = read_card(folder)
        if card.player is not None:
            raise ExportError(f"{folder}: a player that searches; the judge is a network")
        return PublishedModel(folder, card)
    except ExportError:
        raise
    except CardError as error:
        raise ExportError(f"{folder}: not a published version ({error})") from error
    except Exception as error:  # onnxruntime's exceptions have no other base class
        raise ExportError(f"{folder}: not a published version ({first_line(error)})") from error
