"""Finds the meaning of a network's outputs, from their shapes and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from octofold_export.description.description import Answers
from octofold_export.description.flag_text import flags_with_placeholders
from octofold_export.description.hints import AnswersHints, given_fields
from octofold_export.errors import ExportError, NeedsFlags


def answers_of(hints: AnswersHints, outputs: dict[str, NDArray[Any]]) -> tuple[Answers, str]:
    """Return the meaning of `outputs` `[N, ...]`, and a question for the network's author.

    The question is empty if the meaning is clear.

    Raises:
        NeedsFlags: several outputs may be the answer, or `--scale` is missing.
        ExportError: the answer has the wrong shape or type, or the hints contradict the outputs.
    """
    name, output = _answer_output(hints, outputs)
    width = numbers_per_board(output)
    kind, question = hints.kind, ""
    if width == 1 and output.dtype.kind in "iu":
        raise ExportError(
            f"output {name!r} is the index of a move; remove its ArgMax, so that it has a number for each of "
            "the four moves"
        )
    if kind is None and width == 1:
        kind = "afterstate_value"
    elif kind is None and width == 4 and is_distribution(output):
        kind = "policy_probabilities"
    elif kind is None and width == 4:
        kind = "policy_logits"
        question = (
            f"output {name!r} may be policy_logits or, for a Q-network, action_values, which are merged "
            "differently over several views of a board; choose one with --answer"
        )
    needed = 1 if kind == "afterstate_value" else 4
    if width != needed or kind is None:
        wanted = (
            f"[N, {needed}] for {kind}" if kind else "[N, 4] for moves, or [N, 1] for an afterstate's value"
        )
        raise ExportError(f"output {name!r} must have the shape {wanted}, got {_shape(output)}")
    if kind == "afterstate_value" and hints.scale is None:
        raise NeedsFlags(
            "afterstate_value needs --scale, the number of game points that an output of 1 means, because "
            "the reward of the move is added to the value",
            flags_with_placeholders(["--scale"]),
        )
    value = None if kind == "afterstate_value" else _value_output(hints.value, name, outputs)
    fields = {
        **given_fields(hints),
        "output": name if len(outputs) > 1 else None,
        "kind": kind,
        "value": value,
    }
    try:
        answers = Answers(**fields)
    except ValueError as error:
        raise ExportError(f"the description contradicts itself: {error}") from error
    if kind == "policy_probabilities" and not is_distribution(output):
        raise ExportError(f"output {name!r} is not policy_probabilities, which are 0 or more and sum to 1")
    return answers, question


def _answer_output(hints: AnswersHints, outputs: dict[str, NDArray[Any]]) -> tuple[str, NDArray[Any]]:
    """Return the name and the numbers of the output that rates moves or positions.

    It is the output that the hints name, the only output, or the only output with four numbers for a board.
    """
    name = hints.output
    listed = ", ".join(f"{key!r} {_shape(output)}" for key, output in outputs.items())
    if name is None:
        others = {key: output for key, output in outputs.items() if key != hints.value}
        fours = {key: output for key, output in others.items() if numbers_per_board(output) == 4}
        likely = fours if len(others) > 1 else others
        if len(likely) != 1:
            several = f"the network has {len(outputs)} outputs ({listed}); name one with --output"
            if hints.kind is not None or not fours:
                raise NeedsFlags(several, flags_with_placeholders(["--output"]))
            raise NeedsFlags(
                f"{several} and its kind with --answer", flags_with_placeholders(["--output", "--answer"])
            )
        return next(iter(likely.items()))
    if name not in outputs:
        raise ExportError(f"the network has no output {name!r}; it has {listed}")
    return name, outputs[name]


def _value_output(name: str | None, answer: str, outputs: dict[str, NDArray[Any]]) -> str | None:
    """Return the name of the value head's output; None if there is none.

    It is the given `name`, or the only output besides `answer` with one number for each board.
    """
    ones = [key for key, output in outputs.items() if numbers_per_board(output) == 1 and key != answer]
    if name is None:
        return ones[0] if len(ones) == 1 else None
    if name not in ones:
        listed = f"; outputs with one number for each board: {', '.join(map(repr, ones))}" if ones else ""
        raise ExportError(f"the network has no value head {name!r}{listed}")
    return name


def batched_outputs(outputs: dict[str, NDArray[Any]], boards: int) -> dict[str, NDArray[Any]]:
    """Return the outputs that have a row for each of `boards` boards.

    The outputs for a single board may lack the batch axis, which is then added.
    """
    rows = {}
    for name, output in outputs.items():
        if output.ndim and len(output) == boards:
            rows[name] = output
        elif boards == 1:
            rows[name] = output[None]
    return rows


def numbers_per_board(output: NDArray[Any]) -> int:
    """Return how many numbers an output `[N, ...]` has for each board."""
    return int(np.prod(output.shape[1:]))


def is_distribution(output: NDArray[Any]) -> bool:
    """Return whether the numbers for every board are probabilities: 0 or more, with the sum 1."""
    rows = output.reshape(len(output), -1).astype(np.float64)
    return bool((rows >= 0).all() and np.abs(rows.sum(axis=1) - 1).max(initial=0) < 1e-3)


def _shape(output: NDArray[Any]) -> str:
    return f"[{', '.join(['N', *map(str, output.shape[1:])])}]" if output.ndim else "[]"
