"""Finds the possible descriptions of a network, from the inputs that it accepts and its outputs.

The network runs on boards in every encoding. Encodings with the same numbers count as one. Games choose among
the descriptions that remain (`checks.misread_detection`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from octofold_game.errors import OctofoldError
from octofold_game.rules import LARGEST_EXPONENT, MOVE_NAMES

from octofold_export.description.description import (
    NUMBER_LAYOUTS,
    ONE_HOT_LAYOUTS,
    Answers,
    Description,
    ElementType,
    InputKind,
    Reads,
    encode,
)
from octofold_export.description.hints import AnswersHints, Hints, ReadsHints, set_fields
from octofold_export.description.readings import (
    Reading,
    action_orders,
    fill_cells,
    flag_values,
    flags_with_placeholders,
    input_key,
)
from octofold_export.errors import ExportError, NeedsFlags

_KINDS: tuple[InputKind, ...] = ("one_hot", "exponents", "tiles", "log2", "log2_plus_1")
_USUAL_PLANES = range(10, 33)
"""Numbers of one-hot planes to try if neither the user nor the network gives one."""
_USUAL_PLANES_OF_TILES = 16
"""Number of one-hot planes for tiles up to 32768 and for empty cells."""
_DEFAULTS = {"cells": "rows", "empty_plane": True, "divide_by": 1}
_ROUNDING = 1e-3
"""Maximum rounding error, as a share of the largest answer."""
_SHOWN_READINGS = 6
_BOARDS = np.random.default_rng(4).integers(0, 8, (3, 16)).astype(np.uint8)


class NetworkError(OctofoldError):
    """The network does not accept an input."""


class NoBatchError(ExportError):
    """The network takes only one board at a time, or its answer to a board depends on the batch."""


class Network(Protocol):
    """A trained network as a black box."""

    @property
    def shape(self) -> Sequence[int | None] | None:
        """The declared shape of the input, batch first: None for a free size, or if no shape is declared."""

    @property
    def type(self) -> ElementType | None:
        """The declared type of the input; None if no type is declared."""

    def run(self, inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run the network, and return its outputs by name.

        Raises:
            NetworkError: the network does not accept these inputs.
        """

    def operations(self, inputs: NDArray[Any]) -> int:
        """Return how many operators run on `inputs`.

        The number grows with the number of boards if the network loops over them.
        """


@dataclass(frozen=True)
class Readings:
    """The possible readings of a network, and a question that only its author can answer."""

    all: Sequence[Reading]
    question: str
    """A question for the author; empty if there is none."""


def readings_of(hints: Hints, network: Network) -> Readings:
    """Find all readings of `network`: those that fit `hints`, the most usual first, then the others.

    Four numbers of an unknown kind count as logits; as action values, they would lead to the same moves.

    Raises:
        ExportError: the hints contradict the network, or several outputs may be the answer.
    """
    fitting = _fitting(hints, network)
    inputs = encode(fitting[0], _BOARDS)
    outputs, again = network.run(inputs), network.run(inputs)
    if any(not np.array_equal(outputs[name], again[name], equal_nan=True) for name in outputs):
        raise ExportError(
            "the network answers the same boards differently each time; remove random operators, such "
            "as a dropout that is always on, and state that it keeps between calls"
        )
    rows = by_board(outputs, len(_BOARDS))
    if _depends_on_the_batch(network, inputs, rows):
        raise NoBatchError("the network's answer to a board depends on the other boards of the batch")
    if network.operations(inputs) > network.operations(inputs[:-1]):
        raise NoBatchError("the network's forward loops over the boards of a batch")
    answers, question = _answers(hints.answers, rows)
    said = hints.reads
    flag = more = ""
    if said.kind is None and any(_takes_more(network, reads) for reads in fitting):
        flag, more = "--input", "the network also accepts more numbers than a board has"
    elif said.planes is None and all((reads.planes or 0) > _USUAL_PLANES_OF_TILES for reads in fitting):
        flag, more = "--planes", f"the network takes {fitting[0].planes} planes, more than tiles usually need"
    if flag:
        more += f"; give {flag} if it reads only the board, otherwise make its input with --encoder"
        asked = [flag, "--answer"] if question else [flag]
        raise NeedsFlags("; ".join(filter(None, (more, question))), flags_with_placeholders(asked))
    kept = ReadsHints(type=said.type, planes=said.planes, above=said.above, cells=said.cells)
    others = replace(hints, reads=kept)
    every: dict[tuple[object, ...], tuple[Reads, bool]] = {}
    for bases, known in ((fitting, hints), (_accepted(others, network)[0], others)):
        for base in bases:
            for reads in fill_cells(base, known):
                every.setdefault(input_key(reads), (reads, known is hints))
    found: list[Reading] = []
    for reads, is_possible in every.values():
        description = _described(hints, network, reads, answers, is_possible=is_possible)
        if description is not None:
            found += action_orders(description, hints, is_possible=is_possible)
    return Readings(found, question)


def _takes_more(network: Network, reads: Reads) -> bool:
    """Return whether a network that reads cells as numbers accepts more numbers than a board has."""
    if reads.planes is not None or reads.layout == "square" or network.shape is not None:
        return False
    inputs = encode(reads, _BOARDS)
    axis = -1 if reads.layout == "plane_last" else 1
    more = inputs[:, :4] if reads.layout == "flat" else inputs
    try:
        network.run(np.concatenate([inputs, more], axis=axis))
    except NetworkError:
        return False
    return True


def _depends_on_the_batch(network: Network, inputs: NDArray[Any], rows: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether a board alone gets another answer than in a batch; `rows` are the batch's answers."""
    for at in range(len(inputs)):
        alone = by_board(network.run(inputs[at : at + 1]), 1)
        for name, batch in rows.items():
            answer, expected = alone[name].ravel(), batch[at].ravel()
            close = _ROUNDING * np.abs(batch[np.isfinite(batch)]).max(initial=0)
            if answer.shape != expected.shape or not np.allclose(
                answer, expected, rtol=0, atol=close, equal_nan=True
            ):
                return True
    return False


def choose_usual(readings: Sequence[Reading]) -> tuple[Reading, Sequence[str], str]:
    """Return the most usual of `readings`, the flags in which they differ, and a request for these flags.

    If some readings have the default of a field, the others are ignored, and the field is not requested.
    """
    every = readings
    for field, default in _DEFAULTS.items():
        usual = [reading for reading in readings if getattr(reading.description.reads, field) == default]
        readings = usual or readings
    if len(readings) == 1:
        return readings[0], [], ""
    flags = [flag_values(reading.description) for reading in readings]
    is_open = [flag for flag in flags[0] if len({values[flag] for values in flags}) > 1]
    cells = list(dict.fromkeys(_name(reading.description.reads) for reading in readings))
    more = f" and {len(cells) - _SHOWN_READINGS} others" if len(cells) > _SHOWN_READINGS else ""
    ways = f"; the input may be {', '.join(cells[:_SHOWN_READINGS])}{more}" if len(cells) > 1 else ""
    planes = {reading.description.reads.empty_plane for reading in every}
    plane = ", and --no-empty-plane if the first plane stands for the tile 2" if len(planes) == 2 else ""
    divisors = {reading.description.reads.divide_by for reading in every}
    has_usual = len(divisors) > 1 and "--divide-by" not in is_open
    divided = "; change --divide-by if the input is divided" if has_usual else ""
    return readings[0], is_open, f"give {' and '.join(is_open)}{plane}{ways}{divided}"


def complete(hints: Hints, network: Network) -> Description:
    """Complete the description of `network` without games.

    The order of the actions is up, right, down, left unless the hints give another one.

    Raises:
        ExportError: the hints contradict the network, or leave more than one reading.
    """
    readings = readings_of(hints, network)
    if readings.question:
        raise ExportError(readings.question)
    actions = hints.answers.actions or MOVE_NAMES
    possible = [reading for reading in readings.all if reading.is_possible]
    reading, _, request = choose_usual(
        [reading for reading in possible if reading.description.answers.actions == actions]
    )
    if request:
        raise NeedsFlags(request)
    return reading.description


def _described(
    hints: Hints, network: Network, reads: Reads, answers: Answers, *, is_possible: bool
) -> Description | None:
    """Return the complete description for one input encoding; None if the network refuses its large tiles."""
    said = hints.largest_exponent
    try:
        largest = _largest(reads, network) if said is None else said
        network.run(encode(reads, np.full((len(_BOARDS), 16), largest, np.uint8)))
        return Description(reads=reads, answers=answers, largest_exponent=largest)
    except ValueError as error:
        problem = ExportError(f"the description contradicts itself: {error}")
    except NetworkError as error:
        problem = ExportError(
            f"the network refuses boards with largest_exponent {said}; use a smaller --largest-exponent "
            f"({error})"
        )
    except ExportError as error:
        problem = error
    if is_possible:
        raise problem
    return None


def _fitting(hints: Hints, network: Network) -> Sequence[Reads]:
    """Return the input encodings that fit the hints and that the network accepts.

    Raises:
        ExportError: there are none.
    """
    found, refused = _accepted(hints, network)
    if found:
        return found
    declared = "" if network.shape is None else f" (it declares {_declared(network)})"
    described = ", ".join(
        f"{'input' if name == 'kind' else name} {value}" for name, value in set_fields(hints.reads).items()
    )
    single = _takes_one(hints.reads, network)
    nothing = f"the network takes no input that fits {described or 'a board'}{declared}"
    if single:
        raise NoBatchError(nothing + single)
    tried = "no encoding of a board has this shape"
    if refused:
        name, reason = next(iter(refused.items()))
        tried = f"describe its input, or make its input with --encoder (tried {name}: {reason})"
    raise ExportError(f"{nothing}; {tried}")


def _accepted(hints: Hints, network: Network) -> tuple[Sequence[Reads], dict[str, str]]:
    """Return the input encodings that the network accepts, and by name why it refuses the others."""
    refused: dict[str, str] = {}
    readings: dict[tuple[Any, ...], tuple[Reads, bool]] = {}
    for reads in _candidates(hints.reads, network):
        try:
            outputs = network.run(encode(reads, _BOARDS))
        except NetworkError as error:
            refused.setdefault(_name(reads), str(error))
            continue
        if rows := by_board(outputs, len(_BOARDS)):
            # Inputs with the same numbers in the same order count as one, regardless of their shapes.
            answers = any(_width(row) in (1, 4) for row in rows.values())
            readings.setdefault(input_key(reads), (reads, answers))
        else:
            shapes = ", ".join(str(list(output.shape)) for output in outputs.values())
            refused.setdefault(
                _name(reads),
                f"the outputs must have a row for each of {len(_BOARDS)} boards, got the shapes {shapes}",
            )
    found = [reads for reads, answers in readings.values() if answers]
    return found or [reads for reads, _ in readings.values()], refused


def _takes_one(hints: ReadsHints, network: Network) -> str:
    """Return advice if the network accepts a single board, but no batch; otherwise return an empty text."""
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


def _candidates(hints: ReadsHints, network: Network) -> Iterator[Reads]:
    fixed = {
        name: value
        for name, value in set_fields(hints).items()
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


def _answers(hints: AnswersHints, outputs: dict[str, NDArray[Any]]) -> tuple[Answers, str]:
    """Return the meaning of the outputs, and a question for the author of the network, or an empty text."""
    name, output = _output(hints, outputs)
    width = _width(output)
    kind, question = hints.kind, ""
    if width == 1 and output.dtype.kind in "iu":
        raise ExportError(
            f"output {name!r} is the index of a move; remove its ArgMax, so that it has four numbers of moves"
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
    value = None if kind == "afterstate_value" else _value(hints.value, name, outputs)
    fields = {**set_fields(hints), "output": name if len(outputs) > 1 else None, "kind": kind, "value": value}
    try:
        answers = Answers(**fields)
    except ValueError as error:
        raise ExportError(f"the description contradicts itself: {error}") from error
    if kind == "policy_probabilities" and not is_distribution(output):
        raise ExportError(f"output {name!r} must be probabilities, which are 0 or more and sum to 1")
    return answers, question


def _output(hints: AnswersHints, outputs: dict[str, NDArray[Any]]) -> tuple[str, NDArray[Any]]:
    """Return the output with the answer: that of the hints, the only one, or the only one of four numbers."""
    name = hints.output
    listed = ", ".join(f"{key!r} {_shape(output)}" for key, output in outputs.items())
    if name is None:
        others = {key: output for key, output in outputs.items() if key != hints.value}
        fours = {key: output for key, output in others.items() if _width(output) == 4}
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


def _value(name: str | None, answer: str, outputs: dict[str, NDArray[Any]]) -> str | None:
    """Return the name of the value head's output; None if there is none.

    It is the given `name`, or the only output besides `answer` with one number for each board.
    """
    ones = [key for key, output in outputs.items() if _width(output) == 1 and key != answer]
    if name is None:
        return ones[0] if len(ones) == 1 else None
    if name not in ones:
        listed = f"; outputs with one number for each board: {', '.join(map(repr, ones))}" if ones else ""
        raise ExportError(f"the network has no value head {name!r}{listed}")
    return name


def by_board(outputs: dict[str, NDArray[Any]], boards: int) -> dict[str, NDArray[Any]]:
    """Return the outputs that have a row for each board; one board's output may lack the batch axis."""
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
    """Return whether the numbers of every board are 0 or more and sum to 1."""
    rows = output.reshape(len(output), -1).astype(np.float64)
    return bool((rows >= 0).all() and np.abs(rows.sum(axis=1) - 1).max(initial=0) < 1e-3)


def _largest(reads: Reads, network: Network) -> int:
    """Return the largest exponent that the planes can represent or, for numbers, that the network accepts."""
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
    raise ExportError("the network does not accept tiles above 4; describe its input")


def _name(reads: Reads) -> str:
    planes = "" if reads.planes is None else f" of {reads.planes} planes"
    divided = "" if reads.divide_by == 1 else f" divided by {reads.divide_by:g}"
    return f"{reads.kind} {reads.layout}{planes}{divided}"


def _declared(network: Network) -> str:
    sizes = ", ".join("N" if size is None else str(size) for size in network.shape or ())
    return f"[{sizes}] {network.type or ''}".strip()


def _shape(output: NDArray[Any]) -> str:
    return f"[{', '.join(['N', *map(str, output.shape[1:])])}]" if output.ndim else "[]"
