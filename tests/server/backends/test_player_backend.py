"""The lane of a player: what fails before it is ready is one line."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game.contract.searches import Found, Limits
from octofold_server.backends.backend import BackendError
from octofold_server.backends.players import PlayerBackend


class Failing:
    value_unit: str | None = None
    largest_exponent = 17

    def prepare(self) -> None:
        raise RuntimeError("the device is lost\nat line 7")

    def find(self, boards: NDArray[np.uint8], limits: Limits, /) -> Found:
        raise NotImplementedError


def test_a_search_that_fails_with_any_exception_is_a_player_that_fails_in_one_line() -> None:
    with pytest.raises(BackendError) as refusal:
        PlayerBackend(Failing()).warm_up()
    assert str(refusal.value) == "the device is lost"
