"""Finds the encodings of a board that a network accepts as input.

The network runs on a few boards in every encoding that fits the user's hints and its declared input.
Encodings that give the same numbers in the same order count as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace
from octofold_game.rules import LARGEST_EXPONENT

from octofold_export.description.description import (
    NUMBER_LAYOUTS,
    ONE_HOT_LAYOUTS,
    ElementType,
    InputKind,
    Reads,
    encode,
)
from octofold_export.description.hints import Hints, ReadsHints, given_fields
from octofold_export.description.network import Network, NetworkError, NoBatchError
from octofold_export.description.outputs import batched_outputs, numbers_per_board
from octofold_export.errors import ExportError

_KINDS: tuple[InputKind, ...] = ("one_hot", "exponents", "tiles", "log2", "log2_plus_1")
_USUAL_PLANES = range(10, 33)
"""Numbers of one-hot planes to try if neither the user nor the network gives one."""
_DIVISORS: dict[InputKind, tuple[float, ...]] = {
    "exponents": (1, 16, 11),
    "tiles": (1, 2048, 65536),
    "log2_plus_1": (1, 16),
}
"""Usual divisors of cells, keyed by kind. `log2` gives the numbers of `exponents`, so it has no entry."""
EXAMPLE_BOARDS = np.random.default_rng(4).integers(0, 8, (3, 16)).astype(np.uint8)
"""Boards `[3, 16]` on which a network runs to find its input and its outputs."""


def accepted_encodings(hints: Hints, network: Network) -> Sequence[Reads]:
    """Return the input encodings that fit the hints and that the network accepts.

    Raises:
        ExportError: the network accepts no encoding that fits, or the hints contradict each other.
    """
    accepted, refused = try_encodings(hints, network)
    if accepted:
        return accepted
    declared = "" if network.shape is None else f" (it declares {_declared_input(network)})"
    described = ", ".join(
        f"{'input' if name == 'kind' else name} {value}" for name, value in given_fields(hints.reads).items()
    )
    single = _advice_for_single_boards(hints.reads, network)
    nothing = f"the network accepts no input that fits {described or 'a board'}{declared}"
    if single:
        raise NoBatchError(nothing + single)
    tried = "no encoding of a board has this shape"
    if refused:
        name, reason = next(iter(refused.items()))
        tried = f"describe its input with --input and --layout, or use --encoder (tried {name}: {reason})"
    raise ExportError(f"{nothing}; {tried}")


def try_encodings(hints: Hints, network: Network) -> tuple[Sequence[Reads], dict[str, str]]:
    """Return the accepted encodings, and the reason for each refusal, keyed by the name of the encoding.

    If the network gives one or four numbers for each board with some encodings, only these encodings are
    returned.
    """
    refused: dict[str, str] = {}
    accepted: dict[tuple[Any, ...], tuple[Reads, bool]] = {}
    for reads in _encodings(hints.reads, network):
        try:
            outputs = network.run(encode(reads, EXAMPLE_BOARDS))
        except NetworkError as error:
            refused.setdefault(encoding_name(reads), str(error))
            continue
        if rows := batched_outputs(outputs, len(EXAMPLE_BOARDS)):
            answers = any(numbers_per_board(row) in (1, 4) for row in rows.values())
            accepted.setdefault(encoding_key(reads), (reads, answers))
        else:
            shapes = ", ".join(str(list(output.shape)) for output in outputs.values())
            refused.setdefault(
                encoding_name(reads),
                f"the outputs must have a row for each of {len(EXAMPLE_BOARDS)} boards, "
                f"got the shapes {shapes}",
            )
    with_answers = [reads for reads, answers in accepted.values() if answers]
    return with_answers or [reads for reads, _ in accepted.values()], refused


def _advice_for_single_boards(hints: ReadsHints, network: Network) -> str:
    """Return advice if the network accepts a single board, but no batch; otherwise return an empty text."""
    for reads in _encodings(hints, network):
        try:
            network.run(encode(reads, EXAMPLE_BOARDS[:1]))
        except NetworkError:
            continue
        return (
            f": it accepts a single board ({encoding_name(reads)}), but no batch of {len(EXAMPLE_BOARDS)}; "
            "use x.shape[0] as the batch size in its forward, or export the file with a free batch size"
        )
    return ""


def _encodings(hints: ReadsHints, network: Network) -> Iterator[Reads]:
    """Yield the input encodings that fit the hints and the network's declared input."""
    fixed = {
        name: value
        for name, value in given_fields(hints).items()
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
    size = int(np.prod([size for size in network.shape[1:] if size is not None]))
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


def complete_encodings(reads: Reads, hints: Hints) -> Iterator[Reads]:
    """Yield `reads` with every usual value of a field that the user leaves open, beginning with the default.

    The field is `empty_plane` for one-hot cells, and `divide_by` for floats. The shape of a network's input
    does not show the values of these fields.
    """
    if reads.kind == "one_hot":
        given = hints.reads.empty_plane
        for empty_plane in (True, False) if given is None else (given,):
            yield replace(reads, empty_plane=empty_plane)
    elif reads.type.startswith("float") and hints.reads.divide_by is None:
        for divide_by in _DIVISORS["exponents" if reads.kind == "log2" else reads.kind]:
            yield replace(reads, divide_by=divide_by)
    else:
        yield reads


def encoding_key(reads: Reads) -> tuple[object, ...]:
    """Return a key that is equal for encodings that give the same numbers in the same order."""
    kind = "exponents" if reads.kind == "log2" else reads.kind
    return kind, reads.planes, reads.by_plane, reads.empty_plane, reads.divide_by


def encoding_name(reads: Reads) -> str:
    """Return the name of an encoding for messages, such as "one_hot channels_first of 16 planes"."""
    planes = "" if reads.planes is None else f" of {reads.planes} planes"
    divided = "" if reads.divide_by == 1 else f" divided by {reads.divide_by:g}"
    return f"{reads.kind} {reads.layout}{planes}{divided}"


def accepts_longer_input(network: Network, reads: Reads) -> bool:
    """Return whether a network that reads cells as numbers also accepts more than 16 numbers."""
    if reads.planes is not None or reads.layout == "square" or network.shape is not None:
        return False
    inputs = encode(reads, EXAMPLE_BOARDS)
    axis = -1 if reads.layout == "plane_last" else 1
    more = inputs[:, :4] if reads.layout == "flat" else inputs
    try:
        network.run(np.concatenate([inputs, more], axis=axis))
    except NetworkError:
        return False
    return True


def largest_accepted_exponent(reads: Reads, network: Network) -> int:
    """Return the largest exponent that has a plane or, for numbers, the largest that the network accepts.

    If larger exponents are clamped to the last plane, the result is `LARGEST_EXPONENT`.

    Raises:
        ExportError: the network accepts only small tiles.
    """
    if reads.largest_plane is not None:
        return LARGEST_EXPONENT if reads.above == "clamped" else min(reads.largest_plane, LARGEST_EXPONENT)
    for exponent in range(LARGEST_EXPONENT, 2, -1):
        try:
            network.run(encode(reads, np.full((len(EXAMPLE_BOARDS), 16), exponent, np.uint8)))
        except NetworkError:
            continue
        return exponent
    raise ExportError("the network does not accept tiles above 4; describe its input with --input")


def _declared_input(network: Network) -> str:
    sizes = ", ".join("N" if size is None else str(size) for size in network.shape or ())
    return f"[{sizes}] {network.type or ''}".strip()
