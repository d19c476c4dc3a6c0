"""Saves the state of numpy's random generators, so that a resumed run draws what it would have drawn."""

from __future__ import annotations

import json

import numpy as np


def random_state(random: np.random.Generator) -> str:
    """Everything that `restore_random` needs."""
    return json.dumps(random.bit_generator.state)


def restore_random(random: np.random.Generator, state: str) -> None:
    """Go on from an earlier `random_state`.

    Raises:
        ValueError: it is not a state of this kind of generator.
    """
    random.bit_generator.state = json.loads(state)
