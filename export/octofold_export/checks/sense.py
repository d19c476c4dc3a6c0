"""Detects a wrong description of a network: it plays worse than the network would by another one.

All readings of the cells and of the numbers are compared at once, by how often they agree with a sensible
player. If one agrees clearly more often than the description, both play the same games. Only if that one
scores more is the description called wrong: a network that has learned little is weak, but not misread. The
sensible player, the judge, is the strongest published network at hand, or a search. A network that
agrees with it no more than chance is not weak either if it plays well: it may know another orientation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np
import onnx
from msgspec.structs import replace
from numpy.typing import NDArray
from octofold_game.contract.model import CARD_FILE, Card, CardError, Evidence, read_card
from octofold_game.errors import first_line
from octofold_game.player import Player
from octofold_game.rules import MOVE_NAMES, legal_moves
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer

from octofold_export.checks.games import Mover, play_match
from octofold_export.checks.reference import Evaluate, PlainHead, PlainValue, plain_head
from octofold_export.checks.runner import FoldedGraph
from octofold_export.description.description import Description
from octofold_export.description.readings import flags_of, readings
from octofold_export.errors import ExportError


class PublishedModel:
    """A published version as a player."""

    def __init__(self, folder: Path, card: Card) -> None:
        self.name = f"{card.name} version {card.version}"
        self.largest_exponent = card.largest_exponent
        file = card.precisions.get("int8") or card.precisions["fp32"]
        self._graph = FoldedGraph(onnx.load(folder / file.file))

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Choose moves `[N]` for boards `[N, 16]`; -1 where no move is legal."""
        return self._graph.next_moves(boards)


def find_judge(models: Path) -> Player:
    """Choose the model with the highest measured average score, or a search if no model was measured.

    Raises:
        ExportError: the model's files are damaged.
    """
    measured = []
    for file in models.glob(f"*/*/{CARD_FILE}"):
        try:
            card = read_card(file.parent)
        except CardError:
            continue  # not measured
        tensors = any(graph.tensors for graph in card.precisions.values())
        if card.strength is not None and card.player is None and not tensors:
            measured.append((card.strength.average, file.parent))
    if not measured:
        return HeuristicExpectimaxPlayer(depth=1)
    _, strongest = max(measured)
    return read_judge(strongest)


def read_judge(folder: Path) -> Player:
    """Load the published version in `folder`.

    Raises:
        ExportError: the folder contains no version, or its graph cannot be loaded.
    """
    try:
        card = read_card(folder)
        if card.player is not None:
            raise ExportError(f"{folder}: a player that searches; the judge is a network")
        return PublishedModel(folder, card)
    except ExportError:
        raise
    except CardError as error:
        raise ExportError(f"{folder}: not a published version ({error})") from error
    except Exception as error:  # onnxruntime's exceptions have no other base class
        raise ExportError(f"{folder}: not a published version ({first_line(error)})") from error


Reread = Callable[[Description], Evaluate]
"""Makes an evaluator of the network as another description reads it."""

_BOARDS = 2_048
_MOST_SECONDS = 30.0  # for the other readings
_CLEARLY = 4.0  # standard errors
_PLAYED = 3  # readings that play against the described one
_GAMES = 64
_MOST_SECONDS_OF_GAMES = 120.0  # of all readings in equal shares; then the moves so far decide
_KEPT = 23  # other readings in the card

Hits = NDArray[np.float64]
"""`[N]`: 1 where a move equals the sensible player's, else 0; for chance, the probability of this."""


@dataclass(frozen=True)
class Reading:
    """A network with one description of what it reads and answers."""

    name: str
    "the flags that differ from the described ones"
    flags: str
    "all flags; empty if no flags say it"
    scores: Callable[[NDArray[np.uint8]], NDArray[np.float64]]
    "from boards `[N, 16]` to the scores of their moves `[N, 4]`"
    hits: Hits
    same_cells: bool
    "whether it differs by the meaning of the numbers alone, such as their order"

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Choose moves `[N]` for boards `[N, 16]`, each seen as it is."""
        return _moves(self.scores(boards), legal_moves(boards))


def summary(evidence: Evidence) -> str:
    """The evidence, as the end of a sentence whose subject is the network."""
    best = [f"{share:.1%} with {name}" for name, share in list(evidence.others.items())[:2]]
    return (
        f"agrees with {evidence.judge} on {evidence.agreement:.1%} of {evidence.boards:,} boards "
        f"(chance: {evidence.chance:.1%}; {', '.join(best)})"
    )


def compare_readings(
    description: Description, reread: Reread, boards: NDArray[np.uint8], judge: Player
) -> Evidence:
    """Compare the network under all readings with `judge` on `boards` `[N, 16]`, and in games if need be."""
    legal = legal_moves(boards)
    boards, legal = boards[legal.sum(axis=1) > 1], legal[legal.sum(axis=1) > 1]
    boards, legal = boards[:_BOARDS], legal[:_BOARDS]
    expected = judge.next_moves(boards)
    described, *others = _readings(description, reread, boards, legal, expected)
    others.sort(key=lambda reading: -float(reading.hits.mean()))
    chance = 1 / legal.sum(axis=1)
    blind = _best_blind(legal, expected)
    better = [
        reading
        for reading in others
        if _lead(reading.hits, described.hits) > _CLEARLY and _lead(reading.hits, blind) > _CLEARLY
    ]
    first = next((reading for reading in better if reading.same_cells), None)  # the usual mistake
    better.sort(key=lambda reading: reading is not first)
    weak = _lead(described.hits, chance) <= _CLEARLY and not _plays_well(
        described, description.largest_exponent
    )
    return Evidence(
        judge=judge.name,
        boards=len(boards),
        agreement=round(float(described.hits.mean()), 4),
        chance=round(float(chance.mean()), 4),
        others={reading.name: round(float(reading.hits.mean()), 4) for reading in others[:_KEPT]},
        problem=_problem(described, better[:_PLAYED], description.largest_exponent),
        warning=_warning(described, others) if weak else None,
    )


def _warning(described: Reading, others: list[Reading]) -> str:
    """What to say of a network that plays like chance: games do not tell a wrong reading from a weak one."""
    order = next((reading for reading in others if reading.same_cells), None)
    hint = ""
    if order is not None and _lead(order.hits, described.hits) > _CLEARLY:
        hint = (
            f", or whose numbers mean something else: with {order.name} it agrees on {order.hits.mean():.1%}"
        )
    return f"it plays little better than chance, as a network does that has hardly learned{hint}"


def _plays_well(described: Reading, largest_exponent: int) -> bool:
    """Whether it scores clearly more than a player that has one order of moves for all boards.

    A network that prefers another corner than the judge rarely makes its moves, however strong it is.
    """
    end = time.monotonic() + _MOST_SECONDS_OF_GAMES
    players: dict[str, Callable[[], Mover]] = {"described": partial(_itself, described), "blind": _Blind}
    scores = play_match(players, range(_GAMES), largest_exponent, partial(_is_over, end)).scores
    return len(scores) == len(players) and _lead(scores["described"], scores["blind"]) > _CLEARLY


class _Blind:
    """Makes the first legal move of up, left, right and down."""

    def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
        """Choose moves `[N]` for boards `[N, 16]`."""
        return _moves(np.tile([3.0, 1.0, 0.0, 2.0], (len(boards), 1)), legal_moves(boards))


def _best_blind(legal: NDArray[np.bool_], expected: NDArray[np.int8]) -> Hits:
    """The hits of the best player that has one order of moves for all boards.

    Some reading of a network that has learned nothing is such a player, and no better reading for it.
    """
    hits = [
        (np.array(order)[legal[:, order].argmax(axis=1)] == expected).astype(np.float64)
        for order in permutations(range(4))
    ]
    return max(hits, key=lambda each: float(each.mean()))


def _readings(
    description: Description,
    reread: Reread,
    boards: NDArray[np.uint8],
    legal: NDArray[np.bool_],
    expected: NDArray[np.int8],
) -> Iterator[Reading]:
    """Every reading, the described one first."""
    end = time.monotonic() + _MOST_SECONDS
    for cells in readings(description):
        if cells is not description and time.monotonic() > end:
            return
        head = plain_head(cells, reread(cells))
        try:
            scores = head.scores(boards, 0)
        except ExportError:
            if cells is description:
                raise
            continue  # such as an embedding that has no row for so large a number
        for name, flags, take in _meanings(cells, description):
            hits = (_moves(take(boards, scores), legal) == expected).astype(np.float64)
            yield Reading(name, flags, partial(_taken, take, head), hits, cells is description)


Take = Callable[[NDArray[np.uint8], NDArray[np.float64]], NDArray[np.float64]]
"""Takes boards and the scores that a description gives their moves, and returns those of another meaning."""


def _taken(take: Take, head: PlainHead, boards: NDArray[np.uint8]) -> NDArray[np.float64]:
    return take(boards, head.scores(boards, 0))


def _meanings(cells: Description, described: Description) -> Iterator[tuple[str, str, Take]]:
    """What the numbers may mean: for four, the orders of the actions; for a value, its sign."""
    yield flags_of(cells, described) or "as described", flags_of(cells), lambda _, scores: scores
    if cells.answers.kind == "afterstate_value":
        if cells is described:
            rewards = PlainValue(_nothing, cells.largest_exponent)
            yield "no value at all", "", partial(_weighted, rewards, 0)
            yield "small values as good ones", "", partial(_weighted, rewards, -1)
        return
    own = [MOVE_NAMES.index(action) for action in cells.answers.actions]
    for order in permutations(MOVE_NAMES):
        if order != cells.answers.actions:
            meant = replace(cells, answers=replace(cells.answers, actions=order))
            columns = [own[order.index(action)] for action in MOVE_NAMES]
            yield flags_of(meant, described), flags_of(meant), partial(_reordered, columns)


def _weighted(
    rewards: PlainValue, weight: int, boards: NDArray[np.uint8], scores: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Reward plus `weight` times the value."""
    own = rewards.scores(boards, 0)
    return own + weight * (scores - own)


def _reordered(
    columns: list[int], _boards: NDArray[np.uint8], scores: NDArray[np.float64]
) -> NDArray[np.float64]:
    return scores[:, columns]


def _problem(described: Reading, better: list[Reading], largest_exponent: int) -> str | None:
    """The first reading that scores clearly more in the same games, if there is one."""
    for reading in better:
        end = time.monotonic() + _MOST_SECONDS_OF_GAMES / len(better)
        players = {each.name: partial(_itself, each) for each in (described, reading)}
        match = play_match(players, range(_GAMES), largest_exponent, partial(_is_over, end))
        if len(match.scores) < len(players):
            continue  # no time even for the first moves
        own, scores = match.scores[described.name], match.scores[reading.name]
        if _lead(scores, own) > _CLEARLY:
            played = f"{_GAMES} games" if match.moves is None else f"{match.moves} moves of {_GAMES} games"
            whole = f"; the whole reading is {reading.flags}" if reading.flags else ""
            return (
                f"with {reading.name} it scores {scores.mean():,.0f} points a game instead of "
                f"{own.mean():,.0f} ({played}, one view){whole}"
            )
    return None


def _is_over(end: float) -> bool:
    return time.monotonic() > end


def _itself(reading: Reading) -> Reading:
    return reading


def _moves(scores: NDArray[np.float64], legal: NDArray[np.bool_]) -> NDArray[np.int8]:
    masked = np.where(legal, np.maximum(scores, np.finfo(np.float64).min), -np.inf)
    moves: NDArray[np.int8] = masked.argmax(axis=1).astype(np.int8)
    return moves


def _nothing(views: NDArray[np.uint8]) -> NDArray[np.float64]:
    return np.zeros((len(views), 1))


def _lead(one: Hits, other: Hits) -> float:
    """The number of standard errors by which `one` is larger, board by board or game by game."""
    difference = one - other
    error = difference.std() / np.sqrt(len(difference))
    return float(difference.mean() / error) if error else 0.0
