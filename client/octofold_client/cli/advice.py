"""The flags that name an adviser, and the adviser that they mean."""

import argparse
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
from numpy.typing import NDArray
from octofold_game.rules import BoardError

from octofold_client.cli.arguments import (
    DEFAULT_TARGET,
    add_model,
    add_servers,
    asked_for,
    servers,
)
from octofold_client.contenders.advice import Advice, Adviser, local_adviser, served_adviser
from octofold_client.errors import EvaluationError, OctofoldError

Thought = Advice | str | None
"""Advice, the message of an error, or None if nobody is asked."""


def add_adviser(parser: argparse.ArgumentParser) -> None:
    """Add `--player`, `--target`, the flags of `add_credentials`, `--model` and `--version`."""
    parser.add_argument("--player", metavar="SPEC", help="local player to ask, such as expectimax:depth=3")
    add_servers(parser, default="")
    add_model(parser)


def adviser_of(options: Namespace, stack: ExitStack) -> Callable[[NDArray[np.uint8]], Thought] | None:
    """A function that asks the adviser of the flags once about each board; None if no flag names one.

    Raises:
        EvaluationError: the player is unknown, or both a player and a model are named.
        OctofoldError: the server cannot be reached, or does not have the model.
    """
    served = options.targets or options.model or options.version
    if options.player and served:
        raise EvaluationError("--player and a model of a server exclude each other")
    if options.player:
        return _Memory(local_adviser(options.player)).ask
    if not served:
        return None
    options.targets = options.targets or [DEFAULT_TARGET]
    found = stack.enter_context(servers(options))
    model = found.select(*asked_for(options.model, options.version))
    return _Memory(served_adviser(found.client, model)).ask


class _Memory:
    def __init__(self, adviser: Adviser) -> None:
        self._adviser = adviser
        self._known: dict[bytes, Advice] = {}

    def ask(self, board: NDArray[np.uint8]) -> Thought:
        """The advice on a board, or the message of the error."""
        key = board.tobytes()
        try:
            if key not in self._known:
                self._known[key] = self._adviser(board)
        except (OctofoldError, BoardError) as error:
            return str(error)
        return self._known[key]
