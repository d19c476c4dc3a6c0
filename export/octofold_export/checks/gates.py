"""Checks graphs before publication: parity, equivariance, agreement and moves.

A failed check raises `GateError`. Its message is one line that says what differs and, if possible, names the
first board with a difference.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from octofold_game.contract.model import StageAgreement
from octofold_game.rules import MOVE_NAMES
from octofold_game.symmetries import CELLS, MOVES, VIEWS

from octofold_export.checks.calibration_and_comparison_boards import random_boards
from octofold_export.checks.folded_graph import FoldedGraph, Mover, Outputs
from octofold_export.checks.reference import Reference
from octofold_export.errors import ExportError, GateError
from octofold_export.graph.early_exit import with_weights

LOWEST_AGREEMENT = 0.99
"""Minimum share of boards on which a reduced precision must play the same move as float32."""

EQUAL_VALUE_POINTS = 0.25
"""Maximum difference in points between the values of two moves that count as equally good. Rounding errors of
float32 sums of 100,000 points are about 0.05."""

_BATCH_BOARDS = 512
_RANDOM_BOARDS = 512
_PROBABILITY_TOLERANCE = 10.0
"""Maximum difference between a probability from the graph and the same probability from the reference, as a
multiple of `Reference.undecided`."""
_VALUE_TOLERANCE = 1e-3
"""Maximum difference between a `value` from the graph and from the reference, relative to the size of the
value plus the standard deviation of the values of all boards."""
SINGLE_BOARDS = 16
"""Number of boards that the parity check also runs one by one."""
_FINISHED = np.array([[1, 2, 1, 2, 2, 1, 2, 1] * 2], np.uint8)  # no legal move


def parity_boards(boards: NDArray[np.uint8], largest_exponent: int) -> NDArray[np.uint8]:
    """Return boards `[M, 16]` to check a graph on: a finished game, some of `boards`, and random boards."""
    random = random_boards(largest_exponent, seed=1)[:_RANDOM_BOARDS]
    return np.concatenate([_FINISHED, boards[: _BATCH_BOARDS - 1], random])


def plays_alike(full: onnx.ModelProto, moves_only: onnx.ModelProto, boards: NDArray[np.uint8]) -> bool:
    """Return whether the graph for moves alone runs and plays like the full graph, on up to 512 of `boards`.

    Up to 1 move in 256 may differ, because rounding errors change a few moves. A wrong graph changes more.
    """
    checked = boards[:_BATCH_BOARDS]
    try:
        shorter = FoldedGraph(with_weights(moves_only, full))
        # The vote on a finished game is never undecided. So the last three views run on an empty batch, which
        # some networks do not accept.
        shorter.next_moves(_FINISHED)
        differing = np.count_nonzero(FoldedGraph(full).next_moves(checked) != shorter.next_moves(checked))
    except ExportError:
        return False
    return bool(differing <= len(checked) // 256)


def check_parity(graph: FoldedGraph, reference: Reference) -> float:
    """Raise `GateError` unless the graph answers like the trained network, for single boards and in a batch.

    Legal moves must be equal, and probabilities and values close. Moves and votes must be equal unless
    rounding errors decide them.

    Returns:
        The share of boards of the batch on which graph and network play the same move.
    """
    equal = 0.0
    for batch, count in ((1, SINGLE_BOARDS), (len(reference.boards), len(reference.boards))):
        checked = reference.first(count)
        actual = graph.answer(checked.boards, batch)
        _compare(f"parity at batch size {batch}", checked.answers, actual, checked)
        equal = float(np.mean(actual.move == checked.answers.move))
    return equal


def check_equivariance(graph: FoldedGraph, reference: Reference, symmetries: int = 8) -> None:
    """Raise `GateError` unless turning or mirroring a board turns or mirrors the answer in the same way.

    `symmetries` is the number of views of the graph; every view is checked. `reference` shows on which boards
    rounding errors decide moves and votes.
    """
    boards = reference.boards
    upright = graph.answer(boards)
    for symmetry in VIEWS[symmetries][1:]:
        cells, moves = CELLS[symmetry], MOVES[symmetry]
        turned = graph.answer(np.ascontiguousarray(boards[:, cells]))
        # The last entry keeps -1, which stands for a finished game.
        move_back = np.append(np.argsort(moves), -1).astype(np.int8)
        answers = Outputs(
            move_back[turned.move],
            turned.probabilities[:, moves],
            turned.votes[:, moves],
            turned.legal[:, moves],
        )
        _compare(f"equivariance under symmetry {symmetry}", upright, answers, reference)


def check_agreement(
    precision: str,
    graph: FoldedGraph,
    exact: Mover,
    boards: NDArray[np.uint8],
    stages: Mapping[str, NDArray[np.uint8]],
    *,
    by_vote: bool,
) -> tuple[float, dict[str, StageAgreement]]:
    """Return the share of `boards` on which `graph` and `exact` play the same move, and that of each stage.

    A board may be in `boards` and in several stages; `graph` evaluates it once. `by_vote` is whether several
    views vote; if so, the error message recommends --rule mean.

    Raises:
        GateError: the share for `boards` is below `LOWEST_AGREEMENT`, or an answer on a board of `stages` is
            not finite, because large tiles exceed the range of a reduced precision.
    """
    groups = [boards, *stages.values()]
    different, rows = np.unique(np.concatenate(groups), axis=0, return_inverse=True)
    answers = graph.answer(different)
    same: NDArray[np.bool_] = np.equal(answers.move, exact.next_moves(different))
    not_finite: NDArray[np.bool_] = np.logical_not(np.isfinite(answers.probabilities).all(axis=1))
    places = np.split(rows.reshape(-1), np.cumsum([len(part) for part in groups])[:-1])
    agreement = float(np.mean(same[places[0]]))
    if agreement < LOWEST_AGREEMENT:
        raise GateError(
            f"{precision} keeps {agreement:.2%} of the {len(boards):,} moves of fp32; "
            f"it must keep at least {LOWEST_AGREEMENT:.0%}"
            + ("; --rule mean usually keeps more moves than a vote" if by_vote else "")
        )
    found = {}
    for (stage, part), at in zip(stages.items(), places[1:], strict=True):
        wrong = not_finite[at]
        if wrong.any():
            raise GateError(
                f"{precision} answers are not finite on {wrong.sum()} of {len(part)} boards ({stage}), "
                f"first on {part[wrong.argmax()].tolist()}"
            )
        found[stage] = StageAgreement(boards=len(part), agreement=round(float(np.mean(same[at])), 5))
    return agreement, found


def check_moves(graph: FoldedGraph, boards: NDArray[np.uint8], action_values: NDArray[np.float32]) -> None:
    """Raise `GateError` if a move of the graph is over `EQUAL_VALUE_POINTS` points worse than the best one.

    `action_values` `[N, 4]` are the values of the moves according to the trained network.
    """
    moves = graph.next_moves(boards)
    behind = action_values.max(axis=1) - action_values[np.arange(len(boards)), moves]
    wrong = ~(behind <= EQUAL_VALUE_POINTS)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise GateError(
            f"moves: on {wrong.sum()} of {len(boards)} boards, the graph chooses a worse move than the "
            f"network. First: board {boards[at].tolist()}, move {MOVE_NAMES[moves[at]]}, "
            f"{behind[at]:.2f} points worse"
        )


def _compare(check: str, expected: Outputs, actual: Outputs, reference: Reference) -> None:
    boards = reference.boards
    difference = np.abs(expected.probabilities - actual.probabilities).max(axis=1)
    allowed = _PROBABILITY_TOLERANCE * reference.undecided
    # Graph and reference compute the same numbers in two ways. Where they differ by no more than is allowed,
    # the largest difference shows how large the rounding errors of this network are.
    error = float(difference[difference <= allowed].max(initial=0))
    needed = np.maximum(reference.undecided, 4 * error)
    decided, votes_decided = reference.margins > needed, reference.vote_margins > needed
    failures = {
        "legal moves differ": (expected.legal != actual.legal).any(axis=1),
        "probabilities differ": ~(difference <= allowed),
        "votes differ": votes_decided & (expected.votes != actual.votes).any(axis=1),
        "moves differ": decided & (expected.move != actual.move),
    }
    if expected.views is not None and actual.views is not None:
        apart = np.abs(expected.views - actual.views).max(axis=(1, 2))
        failures["probabilities of views differ"] = ~(apart <= allowed)
    if expected.value is not None and actual.value is not None:
        closeness = _VALUE_TOLERANCE * (expected.value.std() + np.abs(expected.value))
        failures["values differ"] = ~(np.abs(expected.value - actual.value) <= closeness)
    for what, failed in failures.items():
        if failed.any():
            at = int(np.flatnonzero(failed)[0])
            raise GateError(
                f"{check}: {what} on {failed.sum()} of {len(boards)} boards, first on "
                f"{boards[at].tolist()}: expected {_name(expected, at)}, got {_name(actual, at)}"
            )


def _name(answers: Outputs, at: int) -> str:
    move = answers.move[at]
    shares = " ".join(f"{share:.4f}" for share in answers.probabilities[at])
    return f"{MOVE_NAMES[move] if move >= 0 else 'no move'} (probabilities {shares})"
