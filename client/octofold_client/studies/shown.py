"""An evaluation as pictures and reports show it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from octofold_game.trajectories import Climb

from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.summary import Summary


@dataclass(frozen=True)
class Shown:
    """An evaluation in a picture, under a name that differs from the others'."""

    name: str
    evaluation: Evaluation
    climb: Climb

    @property
    def summary(self) -> Summary:
        """Its figures; only a finished evaluation has them, and only such a one is drawn."""
        assert self.evaluation.summary is not None
        return self.evaluation.summary

    @property
    def scores(self) -> NDArray[np.int64]:
        """The scores of its games, `[N]`."""
        return np.array([game.score for game in self.evaluation.games])
