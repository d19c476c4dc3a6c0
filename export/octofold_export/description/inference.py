"""Completes a description from the inputs that the network accepts and the outputs that it returns.

Every reading that fits the hints is tried on the network. Readings that produce the same input are one
reading. If several readings remain, the error lists them, and the user has to choose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from octofold_game.errors import OctofoldError
from octofold_game.rules import LARGEST_EXPONENT

from octofold_export.description.description import (
    NUMBER_LAYOUTS,
    ONE_HOT_LAYOUTS,
    Answers,
    Description,
    ElementType,
    InputKind,
    Reads,
)
from octofold_export.description.encoding import encode
from octofold_export.description.hints import AnswersHints, Hints, ReadsHints, given
from octofold_export.errors import ExportError

_KINDS: tuple[InputKind, ...] = ("one_hot", "exponents", "tiles", "log2", "log2_plus_1")
_USUAL_PLANES = range(10, 33)  # tried if neither the user nor the network gives a number
_SHOWN_REASONS = 2  # different ones, why the network takes no input
_SHOWN_READINGS = 6
_BOARDS = np.random.default_rng(4).integers(0, 8, (3, 16)).astype(np.uint8)


class NetworkError(OctofoldError):
    """The network does not accept an input."""


class NoBatchError(ExportError):
    """The network takes a single board only."""


class Network(Protocol):
    """A trained network as a black box."""

    @property
    def shape(self) -> Sequence[int | None] | None:
        """The declared input shape, batch first, with None for any size; None if not declared."""

    @property
    def type(self) -> ElementType | None:
        """The declared input type; None if not declared."""

    def run(self, inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run the network, and return its outputs by name.

        Raises:
            NetworkError: the network does not accept these inputs.
        """


def complete(hints: Hints, network: Network) -> Description:
    """Complete the description of `network`, starting from `hints`.

    Raises:
        ExportError: the hints contradict the network, or leave more than one reading.
    """
    reads = _reads(hints, network)
    answers = _answers(hints.answers, by_board(network.run(encode(reads, _BOARDS)), len(_BOARDS)))
    largest = _largest(reads, network) if hints.largest_exponent is None else hints.largest_exponent
    try:
        description = Description(reads=reads, answers=answers, largest_exponent=largest)
    except ValueError as error:
        raise ExportError(f"the description contradicts itself: {error}") from error
    try:
        network.run(encode(reads, np.full((len(_BOARDS), 16), largest, np.uint8)))
    except NetworkError as error:
        raise ExportError(
            f"the network takes no boards with largest_exponent {largest}; use a smaller --largest-exponent "
            f"({error})"
        ) from error
    return description


def _reads(all_hints: Hints, network: Network) -> Reads:
    hints = all_hints.reads
    refused: dict[str, str] = {}
    readings: dict[tuple[Any, ...], tuple[Reads, bool]] = {}
    for reads in _candidates(hints, network):
        try:
            outputs = network.run(encode(reads, _BOARDS))
        except NetworkError as error:
            refused.setdefault(_name(reads), str(error))
            continue
        if rows := by_board(outputs, len(_BOARDS)):
            # The same numbers in the same order are one reading, regardless of the shape.
            answers = any(_width(row) in (1, 4) for row in rows.values())
            readings.setdefault((reads.kind, reads.planes, reads.by_plane), (reads, answers))
        else:
            shapes = ", ".join(str(list(output.shape)) for output in outputs.values())
            answered = (
                f"its outputs for {len(_BOARDS)} boards have the shapes {shapes}, not a row for each board"
            )
            refused.setdefault(_name(reads), answered)
    answering = {key: reads for key, (reads, answers) in readings.items() if answers} or {
        key: reads for key, (reads, _) in readings.items()
    }
    if len(answering) == 1:
        return next(iter(answering.values()))
    if answering:
        named = [_name(reads) for reads in answering.values()]
        more = f" and {len(named) - _SHOWN_READINGS} others" if len(named) > _SHOWN_READINGS else ""
        raise ExportError(
            f"the network can be read in {len(named)} ways: {'; '.join(named[:_SHOWN_READINGS])}{more}; say "
            "which with --input, --layout and --planes, or in a description file"
            + _also(all_hints.answers, network, next(iter(answering.values())))
        )
    declared = "" if network.shape is None else f" (it declares {_declared(network)})"
    described = ", ".join(
        f"{'input' if name == 'kind' else name} {value}" for name, value in given(hints).items()
    )
    if len(refused) == 1 and not _takes_one(hints, network):
        raise ExportError(
            f"the network does not take {described or 'boards'}{declared}: {refused.popitem()[1]}"
        )
    nothing = f"the network takes no input that fits {described or 'a board'}{declared}"
    if single := _takes_one(hints, network):
        raise NoBatchError(nothing + single)
    raise ExportError(nothing + _reasons(refused))


def _also(hints: AnswersHints, network: Network, reads: Reads) -> str:
    """What is not known of the answers either, so that it is not asked for in another run."""
    try:
        _answers(hints, by_board(network.run(encode(reads, _BOARDS)), len(_BOARDS)))
    except ExportError as error:
        return f". Also, {error}"
    return ""


def _takes_one(hints: ReadsHints, network: Network) -> str:
    """The reading of a single board, if there is one."""
    for reads in _candidates(hints, network):
        try:
            network.run(encode(reads, _BOARDS[:1]))
        except NetworkError:
            continue
        return (
            f": it takes a single board ({_name(reads)}), but no batch of {len(_BOARDS)}; use x.shape[0] as "
            "the batch size in its forward, or export the file with a free batch size"
        )
    return ""


def _reasons(refused: Mapping[str, str]) -> str:
    """Some of the readings that were tried, with different reasons why the network refused them."""
    reasons: dict[str, str] = {}
    for name, reason in refused.items():
        reasons.setdefault(re.sub(r"[^A-Za-z]+", "", reason), f"{name}: {reason}")  # but for sizes
    if not reasons:
        return "; no reading of a board has this shape"
    return f"; describe what it reads (tried: {'; '.join(list(reasons.values())[:_SHOWN_REASONS])})"


def _candidates(hints: ReadsHints, network: Network) -> Iterator[Reads]:
    fixed = {
        name: value
        for name, value in given(hints).items()
        if name not in ("kind", "layout", "planes", "type")
    }
    contradiction: ValueError | None = None
    found = False
    for kind in [hints.kind] if hints.kind else _KINDS:
        layouts = ONE_HOT_LAYOUTS if kind == "one_hot" else NUMBER_LAYOUTS
        for layout in [hints.layout] if hints.layout else layouts:
            for planes in _planes(kind, hints, network):
                for element in _types(hints, network):
                    try:
                        reads = Reads(kind=kind, layout=layout, planes=planes, type=element, **fixed)
                    except ValueError as error:
                        contradiction = contradiction or error
                        continue
                    found = True
                    if _fits(reads.shape, network.shape):
                        yield reads
    if not found and contradiction is not None:
        raise ExportError(f"the description contradicts itself: {contradiction}")


def _planes(kind: InputKind, hints: ReadsHints, network: Network) -> Sequence[int | None]:
    if kind != "one_hot":
        return [hints.planes]
    if hints.planes is not None:
        return [hints.planes]
    if network.shape is None or None in network.shape[1:]:
        return _USUAL_PLANES
    cells = [size for size in network.shape[1:] if size is not None]
    size = int(np.prod(cells))
    return [size // 16] if size % 16 == 0 and size > 16 else []


def _types(hints: ReadsHints, network: Network) -> Sequence[ElementType]:
    if hints.type is not None:
        return [hints.type]
    return ["float32", "int64"] if network.type is None else [network.type]


def _fits(shape: tuple[int, ...], declared: Sequence[int | None] | None) -> bool:
    if declared is None:
        return True
    return len(declared) == len(shape) + 1 and all(
        size in (None, wanted) for size, wanted in zip(declared[1:], shape, strict=True)
    )


def _answers(hints: AnswersHints, outputs: dict[str, NDArray[Any]]) -> Answers:
    name, output = _output(hints.output, outputs, hints.value)
    width = _width(output)
    kind = hints.kind
    if kind is None and width == 1:
        kind = "afterstate_value"
    elif kind is None and width == 4 and is_distribution(output):
        kind = "policy_probabilities"
    elif kind is None and width == 4:
        raise ExportError(
            "four numbers a board may be policy_logits or action_values; say which with --answer"
        )
    needed = 1 if kind == "afterstate_value" else 4
    if width != needed or kind is None:
        what = f"{kind} is {needed}" if kind else "the four moves need 4, and the value of an afterstate 1"
        raise ExportError(f"output {name!r} has the shape {_shape(output)}: {what} numbers a board")
    if kind == "afterstate_value" and hints.scale is None:
        raise ExportError(
            "afterstate_value needs --scale: how many points of the game 1 stands for, because the reward "
            "of the move is added"
        )
    value = None if kind == "afterstate_value" else _value(hints.value, name, outputs)
    fields = {**given(hints), "output": name if len(outputs) > 1 else None, "kind": kind, "value": value}
    try:
        answers = Answers(**fields)
    except ValueError as error:
        raise ExportError(f"the description contradicts itself: {error}") from error
    if kind == "policy_probabilities" and not is_distribution(output):
        raise ExportError(f"output {name!r} holds no probabilities: they must be 0 or more and sum to 1")
    return answers


def _output(
    name: str | None, outputs: dict[str, NDArray[Any]], value: str | None
) -> tuple[str, NDArray[Any]]:
    """The named output, the only one, or the only one with four numbers a board."""
    listed = ", ".join(f"{key!r} {_shape(output)}" for key, output in outputs.items())
    if name is None:
        others = {key: output for key, output in outputs.items() if key != value}
        fours = {key: output for key, output in others.items() if _width(output) == 4}
        likely = fours if len(others) > 1 else others
        if len(likely) != 1:
            raise ExportError(f"the network has {len(outputs)} outputs ({listed}); name one with --output")
        return next(iter(likely.items()))
    if name not in outputs:
        raise ExportError(f"the network has no output {name!r}; it has {listed}")
    return name, outputs[name]


def _value(name: str | None, answer: str, outputs: dict[str, NDArray[Any]]) -> str | None:
    """The output of a value head: the named one, or the only further one with one number a board."""
    ones = [key for key, output in outputs.items() if _width(output) == 1 and key != answer]
    if name is None:
        return ones[0] if len(ones) == 1 else None
    if name not in ones:
        listed = f"; those with one number a board: {', '.join(map(repr, ones))}" if ones else ""
        raise ExportError(f"the network has no value head {name!r}{listed}")
    return name


def by_board(outputs: dict[str, NDArray[Any]], boards: int) -> dict[str, NDArray[Any]]:
    """The outputs `[boards, ...]`. Of a single board, they may lack the batch dimension."""
    rows = {}
    for name, output in outputs.items():
        if output.ndim and len(output) == boards:
            rows[name] = output
        elif boards == 1:
            rows[name] = output[None]
    return rows


def _width(output: NDArray[Any]) -> int:
    return int(np.prod(output.shape[1:]))


def is_distribution(output: NDArray[Any]) -> bool:
    """Whether the numbers of every board are 0 or more and sum to 1."""
    rows = output.reshape(len(output), -1).astype(np.float64)
    return bool((rows >= 0).all() and np.abs(rows.sum(axis=1) - 1).max(initial=0) < 1e-3)


def _largest(reads: Reads, network: Network) -> int:
    """The largest exponent that the planes can represent or that the network accepts."""
    if reads.largest_plane is not None and reads.above == "clamped":
        return LARGEST_EXPONENT
    if reads.largest_plane is not None:
        return min(reads.largest_plane, LARGEST_EXPONENT)
    for exponent in range(LARGEST_EXPONENT, 2, -1):
        try:
            network.run(encode(reads, np.full((len(_BOARDS), 16), exponent, np.uint8)))
        except NetworkError:
            continue
        return exponent
    raise ExportError("the network takes no tile above 4; describe what it reads")


def _name(reads: Reads) -> str:
    planes = "" if reads.planes is None else f" of {reads.planes} planes"
    return f"{reads.kind} {reads.layout}{planes}"


def _declared(network: Network) -> str:
    sizes = ", ".join("N" if size is None else str(size) for size in network.shape or ())
    return f"[{sizes}] {network.type or ''}".strip()


def _shape(output: NDArray[Any]) -> str:
    return f"[{', '.join(['N', *map(str, output.shape[1:])])}]" if output.ndim else "[]"
