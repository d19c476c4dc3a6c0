"""An evaluation as pictures and reports show it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from octofold_game.trajectories import Climb

from octofold_client.evaluation.result import Evaluation


@dataclass(frozen=True)
class Shown:
    """An evaluation in a picture, under a name that differs from the others'."""

    name: str
    evaluation: Evaluation
    climb: Climb

    @property
    def scores(self) -> NDArray[np.int64]:
        """The scores of its games, `[N]`."""
        return np.array([game.score for game in self.evaluation.games])
