"""Detects a wrong description of a network by games: another reading then scores more.

A reading is a way to encode boards for the network and to interpret its outputs. Every reading plays games.
Readings that score clearly less than the best one stop. The others continue until one is left or all rounds
are played. The best reading must also score more than a player that ignores the board and tries moves in a
fixed order. Otherwise the network has learned too little for games to decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import Evidence
from octofold_game.episodes import Episodes
from octofold_game.rules import afterstates

from octofold_export.checks.recording import Report
from octofold_export.checks.reference import Evaluate, network_evaluation, plain_head
from octofold_export.description.description import Description
from octofold_export.description.hints import Hints
from octofold_export.description.inference import Network, choose_usual, readings_of
from octofold_export.description.readings import Reading, flags_of, flags_with_placeholders
from octofold_export.errors import NeedsFlags

LONGEST_GAME = 400
"""Maximum number of moves of a game. In this many moves, a network that reads boards correctly scores several
times as much as one that does not."""
_ROUNDS = (4, 12, 48, 192, 768)
"""Number of games that each remaining reading plays in each round."""
_MOST_MOVES = 2_000_000
"""Maximum number of moves of all readings together, which take a small network some seconds. If too few moves
are left for all readings, the best ones play first."""
_MOST_PRODUCTS = 2.5e11
"""Maximum product of the number of moves and the number of weights. So a large network makes fewer moves, but
at least `_FEWEST_MOVES`."""
_FEWEST_MOVES = 20_000
_GAMES_TO_LEAD_FIXED_ORDER = 48
"""Number of games in a round after which play stops if no reading scores more than a fixed order of moves."""
_CLEAR_LEAD = 3.0
"""Lead of the best reading by which it excludes another reading, in standard errors."""
_REFUTING_RATIO = 1.4
"""Ratio of scores by which another reading refutes the description. A weak network may score slightly more
when it is misread."""
_FIXED_ORDER_LEAD = 4.0
"""Lead of the best reading by which it excludes a fixed order of moves, in standard errors."""
_SMALLEST_DEVIATIONS = {4: 0.4, 16: 0.2}
"""Minimum standard deviation of the logarithm of scores, by number of games. A few games may have similar
scores by chance."""
_SEED = 4
_CHUNK = 512
"""Number of positions in one run of the network."""
_NAMED = 3
"""Maximum number of readings in a message."""
_KEPT = 8
"""Maximum number of other readings in the card."""
_FIXED_ORDER_VALUES = (3.0, 1.0, 0.0, 2.0)
"""Values of up, right, down and left for the player that tries up, left, right, down in this order."""
_TOO_WEAK = "the network plays too weakly to show how it reads the board"

Numbers = NDArray[np.float64]


@dataclass(eq=False)
class _Player:
    """A player with its scores so far: a reading, or a fixed order of moves if `reading` is None."""

    reading: Reading | None
    scores: list[int] = field(default_factory=list)

    @property
    def average(self) -> float:
        return float(np.mean(self.scores))

    def leads(self, other: _Player) -> bool:
        """Return whether this player scores clearly more than the other."""
        return self.lead(other) > (_CLEAR_LEAD if other.reading else _FIXED_ORDER_LEAD)

    def lead(self, other: _Player) -> float:
        """Return by how many standard errors this player scores more than the other."""
        (mean, error), (other_mean, other_error) = self._logarithms(), other._logarithms()
        return (mean - other_mean) / float(np.hypot(error, other_error))

    def _logarithms(self) -> tuple[float, float]:
        """Return the mean and the standard error of the logarithms of the scores.

        The logarithm keeps a few very good games from dominating the mean.
        """
        logarithms = np.log1p(self.scores)
        deviation = max(float(logarithms.std(ddof=1)), _SMALLEST_DEVIATIONS.get(len(self.scores), 0.1))
        return float(logarithms.mean()), deviation / len(self.scores) ** 0.5


@dataclass(frozen=True)
class _Outcome:
    """The result of the games of all readings."""

    left: Sequence[_Player]
    """Players that the games did not exclude; the most usual reading is first."""
    excluded: Sequence[_Player]
    is_cut_short: bool

    @property
    def has_learned(self) -> bool:
        """Whether the network plays better than a fixed order of moves."""
        return all(player.reading is not None for player in self.left)

    @cached_property
    def best(self) -> Reading | None:
        """The only reading left, or the most usual one if all readings left are alike; None otherwise."""
        found = [player.reading for player in self.left if player.reading is not None]
        is_clear = self.has_learned and all(found[0].is_like(reading) for reading in found)
        return found[0] if is_clear else None

    @property
    def possible(self) -> list[Reading]:
        """The readings that the user's flags allow and the games do not refute.

        If the flags allow none of the readings that are left, these are the allowed readings that games
        cannot distinguish from a reading that is left.
        """
        left = [player.reading for player in self.left if player.reading is not None]
        excluded = (player.reading for player in self.excluded if player.reading is not None)
        return [reading for reading in left if reading.is_possible] or [
            reading for reading in excluded if reading.is_possible and any(map(reading.is_like, left))
        ]

    def player(self, reading: Reading) -> _Player:
        """Return the player of a reading."""
        return next(player for player in (*self.left, *self.excluded) if player.reading is reading)


def choose_reading(
    hints: Hints, network: Network, weights: int, report: Report, *, accept: bool = False
) -> tuple[Description, Evidence]:
    """Complete the description of a network by games, and check the user's part of it.

    Args:
        hints: the user's part of the description.
        network: the trained network.
        weights: the number of its weights.
        report: receives the findings.
        accept: whether to ignore the result of the games; fields that are not given then get the most usual
            value.

    Raises:
        NeedsFlags: the games do not determine every field, or another reading plays better.
        ExportError: the hints contradict the network.
    """
    readings = readings_of(hints, network)
    if readings.question:
        report(readings.question)
    outcome = _play(network, readings.all, weights)
    possible = [reading for reading in readings.all if reading.is_possible]
    problem = _problem(outcome, possible)
    questions = [readings.question] if readings.question else []
    asked = ["--answer"] if readings.question else []
    if problem is not None and not accept:
        best = outcome.best
        flags = (
            flags_with_placeholders(asked, best.description)
            if best is not None and best.value_sign == 1
            else ""
        )
        wrong = f"{problem}; change the flags, or add --accept to publish the network as described"
        raise NeedsFlags("; ".join([wrong, *questions]), flags)
    if outcome.best is not None:
        possible = outcome.possible or possible
    chosen, is_open, request = choose_usual(possible)
    if accept:
        chosen, request = possible[0], ""
    evidence = _evidence(outcome, chosen, problem)
    divide_by = chosen.description.reads.divide_by
    if divide_by != 1 and hints.reads.divide_by is None and not accept:
        divided = f"games suggest an input divided by about {divide_by:g}; confirm it with --divide-by"
        questions, asked = [divided, *questions], ["--divide-by", *asked]
    if request:
        why = "games do not decide how the network reads the board" if outcome.has_learned else _TOO_WEAK
        questions, asked = [f"{why}: {request}", *questions], [*is_open, *asked]
    else:
        report(f"description: {flags_of(chosen.description)}; {summary(evidence)}")
    if questions:
        raise NeedsFlags("; ".join(questions), flags_with_placeholders(asked, chosen.description))
    return chosen.description, evidence


def summary(evidence: Evidence) -> str:
    """Return the result of the games in one line, with reasons to doubt the description."""
    others = [f"{score:,} with {name}" for name, score in list(evidence.others.items())[:_NAMED]]
    cut_short = ", which were cut short" if evidence.is_cut_short else ""
    doubts = [f"accepted although {evidence.problem}"] if evidence.problem else []
    doubts += [f"warning: {evidence.warning}"] if evidence.warning else []
    return "; ".join(
        [
            f"the network scores {evidence.score:,} points ({', '.join(others)}) in games of at most "
            f"{LONGEST_GAME} moves{cut_short}",
            *doubts,
        ]
    )


def _problem(outcome: _Outcome, possible: Sequence[Reading]) -> str | None:
    """Return what is wrong if the games refute all readings that the user's flags allow; otherwise None."""
    if not outcome.has_learned or outcome.possible:
        return None
    described = max((outcome.player(reading) for reading in possible), key=lambda player: player.average)
    if outcome.left[0].average < _REFUTING_RATIO * described.average:
        return None
    names = [player.reading.name(possible[0].description) for player in outcome.left if player.reading]
    return (
        f"the description seems wrong: with {' or '.join(names[:_NAMED])} the network scores "
        f"{outcome.left[0].average:,.0f} points instead of {described.average:,.0f} (in at least "
        f"{len(described.scores)} games of at most {LONGEST_GAME} moves, with one view)"
    )


def _evidence(outcome: _Outcome, chosen: Reading, problem: str | None) -> Evidence:
    own, best = outcome.player(chosen), outcome.best
    is_shown = best is not None and chosen.is_like(best)
    every = sorted((*outcome.left, *outcome.excluded), key=lambda player: -player.average)
    others = {
        player.reading.name(chosen.description): round(player.average)
        for player in every
        if player.reading is not None and player is not own
    }
    return Evidence(
        games=len(own.scores),
        score=round(own.average),
        others=dict(list(others.items())[:_KEPT]),
        is_cut_short=outcome.is_cut_short,
        problem=problem,
        warning=None if is_shown or problem else _TOO_WEAK,
    )


def _play(network: Network, readings: Sequence[Reading], weights: int) -> _Outcome:
    """Play rounds of games until one reading is left, all rounds are played, or too few moves are left."""
    fixed_order = _Player(None)
    players = [*map(_Player, readings), fixed_order]
    games = _Games(network, max(reading.description.largest_exponent for reading in readings))
    most_moves = max(_FEWEST_MOVES, int(min(_MOST_MOVES, _MOST_PRODUCTS / max(weights, 1))))
    left, is_cut_short = players, False
    for count in _ROUNDS:
        late: list[_Player] = []
        if (fitting := games.fitting(count, most_moves) // 2) < len(left):
            left = sorted(left, key=lambda player: -player.average)
            left, late = left[:fitting], left[fitting:]
        is_cut_short = bool(late)
        if len(left) < 2:
            left += late
            break
        games.play(left, count)
        best = max((player for player in left if player is not fixed_order), key=lambda each: each.average)
        late = [player for player in late if not best.leads(player)]
        # The readings above took at most half of the moves that were left.
        if 0 < len(late) <= games.fitting(count, most_moves):
            games.play(late, count)
            is_cut_short = False
        left = [player for player in players if player in (*left, *late) and not best.leads(player)]
        if _is_decided(left) or (count >= _GAMES_TO_LEAD_FIXED_ORDER and best.lead(fixed_order) <= 0):
            break
    excluded = [player for player in players if player not in left]
    return _Outcome(left, excluded, is_cut_short and len(left) > 1)


def _is_decided(playing: Sequence[_Player]) -> bool:
    """Return whether all players left are similar readings, of which the flags allow only one."""
    readings = [player.reading for player in playing if player.reading is not None]
    possible = sum(reading.is_possible for reading in readings)
    all_alike = all(readings[0].is_like(reading) for reading in readings)
    return len(readings) == len(playing) and all_alike and (possible == 1 or len(readings) == 1)


class _Games:
    """Games of many readings at once, with one batch of positions for each encoding and move."""

    def __init__(self, network: Network, largest_exponent: int) -> None:
        self._network = network
        self._largest_exponent = largest_exponent
        self._first = 0
        self._moves_made = 0

    def fitting(self, games: int, most_moves: int) -> int:
        """Estimate how many players can each play `games` more games within a total of `most_moves` moves."""
        if not self._first:
            return most_moves
        return int(max(0, most_moves - self._moves_made) / (games * self._moves_made / self._first))

    def play(self, players: Sequence[_Player], games: int) -> None:
        """Play `games` more games with each player.

        A game stopped after `LONGEST_GAME` moves counts with its score so far.
        """
        count = len(players) * games
        episodes = Episodes(_SEED, range(self._first, self._first + count), self._largest_exponent)
        scores = np.zeros(count, np.int64)
        read = [player.reading for player in players if player.reading is not None]
        columns = np.array([reading.description.answers.columns for reading in read])
        signs = np.array([[reading.value_sign] for reading in read])
        cells = list(dict.fromkeys(reading.description.reads for reading in read))
        encoders = np.array([cells.index(reading.description.reads) for reading in read])
        descriptions = {reading.description.reads: reading.description for reading in read}
        for _ in range(LONGEST_GAME):
            if not len(episodes.running):
                break
            self._moves_made += len(episodes.running)
            rows = (episodes.running - self._first) // games
            worth = np.tile(_FIXED_ORDER_VALUES, (len(rows), 1))
            for at, reads in enumerate(cells):
                mine = (rows < len(read)) & (encoders[np.minimum(rows, len(read) - 1)] == at)
                if mine.any():
                    own = rows[mine]
                    worth[mine] = self._worth(
                        descriptions[reads], episodes.boards[mine], columns[own], signs[own]
                    )
            worth = np.where(episodes.legal, np.maximum(worth, np.finfo(np.float64).min), -np.inf)
            for ended in episodes.step(worth.argmax(axis=1)):
                scores[ended.game - self._first] = ended.score
        scores[episodes.running - self._first] = episodes.scores
        for player, own in zip(players, scores.reshape(-1, games).tolist(), strict=True):
            player.scores += own
        self._first += count

    def _worth(
        self,
        description: Description,
        boards: NDArray[np.uint8],
        columns: NDArray[np.intp],
        signs: NDArray[np.int64],
    ) -> Numbers:
        """Return the worth `[N, 4]` of up, right, down and left on boards `[N, 16]`.

        `description` defines the encoding of the boards. `columns` `[N, 4]` gives the position of each move's
        number in the output. Afterstate values are multiplied by `signs` `[N, 1]`.
        """
        evaluate = partial(_in_chunks, network_evaluation(self._network, description))
        if description.answers.width == 4:
            return np.take_along_axis(evaluate(boards), columns, axis=1)
        rewards = afterstates(boards)[1]
        return rewards + signs * (plain_head(description, evaluate).scores(boards, 0) - rewards)


def _in_chunks(evaluate: Evaluate, views: NDArray[np.uint8]) -> Numbers:
    return np.concatenate(
        [evaluate(views[first : first + _CHUNK]) for first in range(0, max(len(views), 1), _CHUNK)]
    )
