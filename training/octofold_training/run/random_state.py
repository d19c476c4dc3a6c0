"""Saves and restores the state of random generators, or seeds them anew for a resumed run."""

from __future__ import annotations

import json

import numpy as np
import torch


def random_state(random: np.random.Generator) -> str:
    """Return the state of a numpy generator as JSON, for `restore_random`."""
    return json.dumps(random.bit_generator.state)


def restore_random(random: np.random.Generator, state: str) -> None:
    """Set a numpy generator to a state that `random_state` returned.

    Raises:
        ValueError: `state` is not a state of this kind of generator.
    """
    random.bit_generator.state = json.loads(state)


def global_generator(device: torch.device) -> torch.Generator:
    """Return torch's default generator on a device."""
    if device.type == "cpu":
        return torch.default_generator
    torch.cuda.init()  # creates CUDA's generators
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.cuda.default_generators[index]


def restore_generator(generator: torch.Generator, state: torch.Tensor, *seeds: int) -> None:
    """Set the state of a torch generator, or seed it with `seeds` if the state has another device's format.

    Generators of CPUs and GPUs have states of different formats.
    """
    if state.shape == generator.get_state().shape:
        generator.set_state(state)
    else:
        reseed(generator, *seeds)


def reseed(generator: torch.Generator, *seeds: int) -> None:
    """Seed a torch generator with a combination of all `seeds`, such as a run's seed and positions."""
    generator.manual_seed(int(np.random.SeedSequence(seeds).generate_state(1)[0]))
