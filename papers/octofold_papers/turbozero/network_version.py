"""A published network with a policy and a value, which a player in this process asks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from octofold_game.commands.extras import install_command
from octofold_game.contract.graph import BOARDS, PROBABILITIES, VALUE
from octofold_game.contract.model import CARD_FILE, read_card
from octofold_game.contract.searches import padded
from octofold_game.errors import first_line
from octofold_game.system.processors import usable_cores
from octofold_players.local_player import OptionError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_OUTPUTS = [PROBABILITIES.name, VALUE.name]


class NetworkVersion:
    """Implements `octofold_game.contract.searches.Evaluator` with the float32 graph of a version.

    Args:
        folder: the folder of the version, such as `models/lazyzero/1`.

    Raises:
        CardError: the card cannot be read.
        OptionError: the version has no value, its graph cannot be read or has tensors in other files, or
            onnxruntime is missing or cannot load the graph.
    """

    def __init__(self, folder: Path) -> None:
        card = read_card(folder)
        if "fp32" not in card.precisions or card.value_unit is None:
            raise OptionError(f"{folder} has no value: rollouts need a network with a policy and a value")
        listed = card.precisions["fp32"]
        self._file = folder / listed.file
        if listed.tensors:
            raise OptionError(f"{self._file} has tensors in other files: only a server reads those")
        try:
            self._graph = self._file.read_bytes()
        except OSError as error:
            raise OptionError(f"{self._file} cannot be read: {error.strerror}") from error
        if hashlib.sha256(self._graph).hexdigest() != listed.sha256.lower():
            raise OptionError(f"{self._file} does not match {CARD_FILE}")
        self.largest_exponent = card.largest_exponent
        self.threads = usable_cores()
        # Of the bytes that were checked, and of one thread: the product of a row must not depend on how
        # threads share the others.
        self._session = self._new_session()

    def __call__(self, output: str, boards: NDArray[np.uint8], /) -> NDArray[np.float32]:
        """As `Evaluator`: `probabilities` or `value`."""
        if output not in _OUTPUTS:
            raise OptionError(f"{self._file} is not asked for {output!r}, only for {' and '.join(_OUTPUTS)}")
        try:
            answers = self._session.run(_OUTPUTS, {BOARDS.name: padded(boards)})
        except Exception as error:  # onnxruntime's exceptions have no other base class
            raise OptionError(f"{self._file} failed: {first_line(error)}") from error
        answer: NDArray[np.float32] = answers[_OUTPUTS.index(output)][: len(boards)]
        return answer

    def numbers(self) -> Iterable[NDArray[np.generic]]:
        """The bytes of the graph, which determine the answers."""
        yield np.frombuffer(self._graph, np.uint8)

    def _new_session(self) -> InferenceSession:
        try:
            import onnxruntime  # late: other players do without
        except ModuleNotFoundError as error:
            raise OptionError(
                f"a published network needs {error.name}: run {install_command('server')}"
            ) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # important messages arrive as exceptions
        # Paths of tensors in the graph are looked up below a file, where nothing can exist.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
        try:
            session = onnxruntime.InferenceSession(self._graph, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's exceptions have no other base class
            raise OptionError(f"onnxruntime cannot load {self._file}: {first_line(error)}") from error
        found = {each.name: (each.type, len(each.shape)) for each in session.get_outputs()}
        for output in (PROBABILITIES, VALUE):
            if found.get(output.name) != ("tensor(float)", 1 + len(output.shape)):
                raise OptionError(f"{self._file} has no output {output.name!r} as {CARD_FILE} promises it")
        return session
