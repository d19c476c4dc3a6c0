"""Finds the candidate descriptions of a network, from the inputs that it accepts and from its outputs.

If several candidates remain, games choose one (`checks.description_choice`), or the network's author does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from octofold_game.rules import MOVE_NAMES

from octofold_export.description.description import Action, Answers, Description, Reads, encode
from octofold_export.description.flag_text import flag_values, flags_of, flags_with_placeholders
from octofold_export.description.hints import Hints, ReadsHints
from octofold_export.description.inputs import (
    EXAMPLE_BOARDS,
    accepted_encodings,
    accepts_longer_input,
    complete_encodings,
    encoding_key,
    encoding_name,
    largest_accepted_exponent,
    try_encodings,
)
from octofold_export.description.network import Network, NetworkError, NoBatchError
from octofold_export.description.outputs import answers_of, batched_outputs
from octofold_export.errors import ExportError, NeedsFlags

_USUAL_PLANES_OF_TILES = 16
"""Number of one-hot planes for tiles up to 32768 and for empty cells."""
_DEFAULTS = {"cells": "rows", "empty_plane": True, "divide_by": 1}
_ROUNDING = 1e-3
"""Maximum rounding error, as a share of the largest answer."""
_SIMILAR = 2.0
"""Maximum ratio of two similar divisors."""
_SHOWN_ENCODINGS = 6
_TRANSPOSED: dict[Action, Action] = {"up": "left", "left": "up", "right": "down", "down": "right"}


@dataclass(frozen=True)
class Candidate:
    """A candidate description of a network; games compare the scores of candidates."""

    description: Description
    is_allowed: bool
    """Whether the user's flags allow this description."""
    value_sign: Literal[1, 0, -1] = 1
    """The factor by which afterstate values are multiplied: -1 if small values are good, 0 if values mean
    nothing. No flag sets it."""

    def is_similar(self, other: Candidate) -> bool:
        """Return whether `other` reads the output in the same way, and gives the network similar numbers.

        One-hot inputs must be equal. For numbers, the divisors differ at most by a factor of 2, and either
        both candidates read tiles, or both read logarithms or exponents. Games cannot distinguish them: a
        network may even play better with numbers that it was not trained on.
        """
        one, two = self.description, other.description
        factor = one.reads.divide_by / two.reads.divide_by
        return (
            self.value_sign == other.value_sign
            and one.answers == two.answers
            and one.reads.cells == two.reads.cells
            and (one.reads == two.reads or one.reads.planes is two.reads.planes is None)
            and (one.reads.kind == "tiles") == (two.reads.kind == "tiles")
            and 1 / _SIMILAR <= factor <= _SIMILAR
        )

    def name(self, base: Description) -> str:
        """Return the difference from the description `base`, as flags or in words."""
        if self.value_sign != 1:
            return "small values counted as good" if self.value_sign < 0 else "values ignored"
        return flags_of(self.description, base) or "as described"


@dataclass(frozen=True)
class Candidates:
    """The candidate descriptions of a network, and a question that only its author can answer."""

    all: Sequence[Candidate]
    question: str
    """A question for the author; empty if there is none."""


def find_candidates(hints: Hints, network: Network) -> Candidates:
    """Return all candidate descriptions of `network`.

    The candidates that fit `hints` come first, beginning with the most usual one. Four numbers of an unknown
    kind count as logits; as action values, they would lead to the same moves.

    Raises:
        NeedsFlags: --input, --planes, --output or --scale is missing.
        NoBatchError: the answer to a board depends on the batch, or the network loops over the boards.
        ExportError: the hints contradict the network, or it answers the same boards differently each time.
    """
    accepted = accepted_encodings(hints, network)
    inputs = encode(accepted[0], EXAMPLE_BOARDS)
    outputs, again = network.run(inputs), network.run(inputs)
    if any(not np.array_equal(outputs[name], again[name], equal_nan=True) for name in outputs):
        raise ExportError(
            "the network answers the same boards differently each time; remove random operators (such "
            "as a dropout that is always on) and any state that the network keeps between calls"
        )
    rows = batched_outputs(outputs, len(EXAMPLE_BOARDS))
    if _depends_on_the_batch(network, inputs, rows):
        raise NoBatchError("the network's answer to a board depends on the other boards of the batch")
    if network.operations(inputs) > network.operations(inputs[:-1]):
        raise NoBatchError("the network's forward loops over the boards of a batch")
    answers, question = answers_of(hints.answers, rows)
    given = hints.reads
    flag = more = ""
    if given.kind is None and any(accepts_longer_input(network, reads) for reads in accepted):
        flag, more = "--input", "the network also accepts more numbers than a board has"
    elif given.planes is None and all((reads.planes or 0) > _USUAL_PLANES_OF_TILES for reads in accepted):
        planes = accepted[0].planes
        flag, more = "--planes", f"the network takes {planes} planes, more than tiles usually need"
    if flag:
        more += f"; give {flag} if it reads only the board, otherwise make its input with --encoder"
        missing = [flag, "--answer"] if question else [flag]
        raise NeedsFlags("; ".join(filter(None, (more, question))), flags_with_placeholders(missing))
    others = replace(
        hints, reads=ReadsHints(type=given.type, planes=given.planes, above=given.above, cells=given.cells)
    )
    encodings: dict[tuple[object, ...], tuple[Reads, bool]] = {}
    for bases, known in ((accepted, hints), (try_encodings(others, network)[0], others)):
        for base in bases:
            for reads in complete_encodings(base, known):
                encodings.setdefault(encoding_key(reads), (reads, known is hints))
    candidates: list[Candidate] = []
    for reads, is_allowed in encodings.values():
        description = _complete_description(hints, network, reads, answers, is_allowed=is_allowed)
        if description is not None:
            candidates += _output_variants(description, hints, is_allowed=is_allowed)
    return Candidates(candidates, question)


def _depends_on_the_batch(network: Network, inputs: NDArray[Any], rows: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether a board gets different answers alone and in a batch; `rows` are the batch's answers."""
    for at in range(len(inputs)):
        alone = batched_outputs(network.run(inputs[at : at + 1]), 1)
        for name, batch in rows.items():
            answer, expected = alone[name].ravel(), batch[at].ravel()
            close = _ROUNDING * np.abs(batch[np.isfinite(batch)]).max(initial=0)
            if answer.shape != expected.shape or not np.allclose(
                answer, expected, rtol=0, atol=close, equal_nan=True
            ):
                return True
    return False


def _complete_description(
    hints: Hints, network: Network, reads: Reads, answers: Answers, *, is_allowed: bool
) -> Description | None:
    """Complete the description for the encoding `reads`.

    If the result would contradict itself or the network, raise an error if `is_allowed`, else return None.
    """
    given = hints.largest_exponent
    try:
        largest = largest_accepted_exponent(reads, network) if given is None else given
        network.run(encode(reads, np.full((len(EXAMPLE_BOARDS), 16), largest, np.uint8)))
        return Description(reads=reads, answers=answers, largest_exponent=largest)
    except ValueError as error:
        problem = ExportError(f"the description contradicts itself: {error}")
    except NetworkError as error:
        problem = ExportError(
            f"the network refuses the exponent {largest}; use a smaller --largest-exponent ({error})"
        )
    except ExportError as error:
        problem = error
    if is_allowed:
        raise problem
    return None


def _output_variants(description: Description, hints: Hints, *, is_allowed: bool) -> Iterator[Candidate]:
    """Yield candidates with the input of `description`: 24 orders of actions, or up to 3 signs of a value.

    A board and its transpose are equally good. So two candidates play equally well: one with the cells by
    rows, and one with the cells by columns and transposed actions. Only the candidate that fits the user's
    hints is yielded.
    """
    if description.answers.width == 1:
        yield Candidate(description, is_allowed)
        if is_allowed:
            yield Candidate(description, False, -1)
            yield Candidate(description, False, 0)
        return
    given = hints.answers.actions
    for actions in permutations(MOVE_NAMES):
        named = replace(description, answers=replace(description.answers, actions=actions))
        if hints.reads.cells is None and given is not None and given != actions:
            other = _transposed(named)
            named = other if other.answers.actions == given else named
        yield Candidate(named, is_allowed and given in (None, named.answers.actions))


def _transposed(description: Description) -> Description:
    first, second, third, fourth = (_TRANSPOSED[action] for action in description.answers.actions)
    return replace(
        description,
        reads=replace(description.reads, cells="rows" if description.reads.cells == "columns" else "columns"),
        answers=replace(description.answers, actions=(first, second, third, fourth)),
    )


def choose_usual(candidates: Sequence[Candidate]) -> tuple[Candidate, Sequence[str], str]:
    """Return the most usual of `candidates`, the flags in which they differ, and a request for these flags.

    If some candidates have the default of a field, the other candidates are ignored. The request then only
    says when to use another value. It is empty if one candidate is left.
    """
    usual = candidates
    for field, default in _DEFAULTS.items():
        with_default = [one for one in usual if getattr(one.description.reads, field) == default]
        usual = with_default or usual
    if len(usual) == 1:
        return usual[0], [], ""
    flags = [flag_values(candidate.description) for candidate in usual]
    open_flags = [flag for flag in flags[0] if len({values[flag] for values in flags}) > 1]
    encodings = list(dict.fromkeys(encoding_name(candidate.description.reads) for candidate in usual))
    hidden = len(encodings) - _SHOWN_ENCODINGS
    more = f" and {hidden} others" if hidden > 0 else ""
    shown = ", ".join(encodings[:_SHOWN_ENCODINGS])
    choices = f"; the input may be {shown}{more}" if len(encodings) > 1 else ""
    planes = {candidate.description.reads.empty_plane for candidate in candidates}
    plane = ", and --no-empty-plane if the first plane stands for the tile 2" if len(planes) == 2 else ""
    divisors = {candidate.description.reads.divide_by for candidate in candidates}
    has_usual = len(divisors) > 1 and "--divide-by" not in open_flags
    divided = "; change --divide-by if the input is divided" if has_usual else ""
    return usual[0], open_flags, f"give {' and '.join(open_flags)}{plane}{choices}{divided}"


def complete_without_games(hints: Hints, network: Network) -> Description:
    """Return the complete description of `network` without playing games.

    The order of the actions is up, right, down, left unless the hints give another one.

    Raises:
        ExportError: the hints contradict the network, or leave more than one description.
    """
    candidates = find_candidates(hints, network)
    if candidates.question:
        raise ExportError(candidates.question)
    actions = hints.answers.actions or MOVE_NAMES
    candidate, _, request = choose_usual(
        [one for one in candidates.all if one.is_allowed and one.description.answers.actions == actions]
    )
    if request:
        raise NeedsFlags(request)
    return candidate.description
