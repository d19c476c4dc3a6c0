"""A published network with a policy and a value, which a player in this process asks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from octofold_game.commands.extras import install_command
from octofold_game.contract.model import BOARDS, CARD_FILE, PROBABILITIES, VALUE, read_card
from octofold_game.system.processors import usable_cores

from octofold_players.local_player import OptionError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

LEAST_ROWS = 4
"""onnxruntime rounds the products of fewer rows in another way."""


class NetworkVersion:
    """Implements `octofold_game.contract.searches.Evaluator` with the float32 graph of a version.

    Args:
        folder: the folder of the version, such as `models/lazyzero/1`.

    Raises:
        CardError: the card cannot be read.
        OptionError: the version has no value, or its graph cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        card = read_card(folder)
        if "fp32" not in card.precisions or card.value_unit is None:
            raise OptionError(f"{folder} has no value: rollouts need a network with a policy and a value")
        listed = card.precisions["fp32"]
        self._file = folder / listed.file
        self._graph = self._file.read_bytes()
        if hashlib.sha256(self._graph).hexdigest() != listed.sha256.lower():
            raise OptionError(f"{self._file} does not match {CARD_FILE}")
        self.largest_exponent = card.largest_exponent
        self.threads = usable_cores()

    def __call__(self, output: str, boards: NDArray[np.uint8], /) -> NDArray[np.float32]:
        """As `Evaluator`: `probabilities` or `value`."""
        padded = np.pad(boards, ((0, max(0, LEAST_ROWS - len(boards))), (0, 0)))
        answers = self._session.run([PROBABILITIES.name, VALUE.name], {BOARDS.name: padded})
        answer: NDArray[np.float32] = answers[output == VALUE.name][: len(boards)]
        return answer

    def numbers(self) -> Iterable[NDArray[np.generic]]:
        """What determines the answers: the bytes of the graph."""
        yield np.frombuffer(self._graph, np.uint8)

    @cached_property
    def _session(self) -> InferenceSession:
        """Of one thread: the product of a row must not depend on how threads share the others."""
        try:
            import onnxruntime  # late: other players do without
        except ModuleNotFoundError as error:
            raise OptionError(
                f"a published network needs {error.name}: run {install_command('server')}"
            ) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # important messages arrive as exceptions
        return onnxruntime.InferenceSession(self._file, options, providers=["CPUExecutionProvider"])
