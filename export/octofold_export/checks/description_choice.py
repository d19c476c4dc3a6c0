"""Chooses a network's description by playing games: how the network reads a board, and what its output means.

The games also check a description that the user gives. The network plays with each candidate description.
Candidates that score clearly less than the best one stop playing. The other candidates continue until the
result is clear, the limit on moves is reached, or all rounds are played. The best candidate must also score
more than a player that ignores the board and tries moves in a fixed order. Otherwise the network has learned
too little for games to decide.
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

from octofold_export.checks.reference import Evaluate, network_evaluation, plain_head
from octofold_export.description.candidates import Candidate, choose_usual, find_candidates
from octofold_export.description.description import Description
from octofold_export.description.flag_text import flags_of, flags_with_placeholders
from octofold_export.description.hints import Hints
from octofold_export.description.network import Network
from octofold_export.errors import NeedsFlags
from octofold_export.printing import Report

LONGEST_GAME = 400
"""Maximum number of moves of a game. In this many moves, a network that reads boards correctly scores several
times as much as a network that does not."""
_ROUNDS = (4, 12, 48, 192, 768)
"""Number of games that each remaining candidate plays in each round."""
_MOST_MOVES = 2_000_000
"""Approximate maximum number of moves of all candidates together; the first round may exceed it. A small
network makes them in some seconds. Near the limit, the candidates with the best scores play first."""
_MOST_PRODUCTS = 2.5e11
"""Maximum product of the number of moves and the number of weights. It limits large networks to fewer moves,
but not to fewer than `_FEWEST_MOVES`."""
_FEWEST_MOVES = 20_000
_GAMES_TO_LEAD_FIXED_ORDER = 48
"""Minimum size of a round, in games per candidate, after which play stops if no candidate scores more than a
fixed order of moves."""
_CLEAR_LEAD = 3.0
"""Lead in score at which the best candidate excludes another candidate, in standard errors."""
_REFUTING_RATIO = 1.4
"""Ratio of scores at which another candidate refutes the user's description. With a wrong description, a weak
network may score slightly more than with the right one."""
_FIXED_ORDER_LEAD = 4.0
"""Lead in score at which the best candidate excludes a fixed order of moves, in standard errors."""
_SMALLEST_DEVIATIONS = {4: 0.4, 16: 0.2}
"""Assumed minimum of the standard deviation of the logarithms of scores, keyed by the number of scores; 0.1
for other numbers. A few games may have similar scores by chance."""
_SEED = 4
_BATCH = 512
"""Maximum number of positions in one run of the network."""
_NAMED = 3
"""Maximum number of candidates that a message names."""
_KEPT = 8
"""Maximum number of candidates that the card lists beside the chosen one."""
_FIXED_ORDER_VALUES = (3.0, 1.0, 0.0, 2.0)
"""Values of up, right, down and left for the fixed order of moves: up, left, right, down."""
_TOO_WEAK = "the network plays too weakly to show how it reads the board"

Numbers = NDArray[np.float64]


@dataclass(eq=False)
class _Player:
    """A player with its scores so far: the network with a candidate description, or a fixed order of moves.

    `candidate` is None for the fixed order of moves.
    """

    candidate: Candidate | None
    scores: list[int] = field(default_factory=list)

    @property
    def average(self) -> float:
        return float(np.mean(self.scores))

    def leads(self, other: _Player) -> bool:
        """Return whether this player scores clearly more than `other`."""
        return self.lead(other) > (_CLEAR_LEAD if other.candidate else _FIXED_ORDER_LEAD)

    def lead(self, other: _Player) -> float:
        """Return by how many standard errors this player scores more than `other`."""
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
    """The result of the games of all candidates."""

    remaining: Sequence[_Player]
    """Players that the games did not exclude, the most usual candidate first. If the last round was skipped
    because too few moves were left, the player with the best score is first."""
    excluded: Sequence[_Player]
    is_cut_short: bool
    """Whether some candidates missed a round of games, because too few moves were left."""

    @property
    def has_learned(self) -> bool:
        """Whether the network plays better than a fixed order of moves."""
        return all(player.candidate is not None for player in self.remaining)

    @cached_property
    def best(self) -> Candidate | None:
        """The candidate that the games choose; None if they do not decide.

        It is the only remaining candidate, or the most usual one if all remaining candidates are similar.
        """
        found = [player.candidate for player in self.remaining if player.candidate is not None]
        is_clear = self.has_learned and all(found[0].is_similar(candidate) for candidate in found)
        return found[0] if is_clear else None

    @property
    def allowed(self) -> list[Candidate]:
        """The candidates that the user's flags allow and the games do not refute.

        If the flags allow no remaining candidate, the result is the excluded candidates that the flags allow
        and that are similar to a remaining candidate.
        """
        remaining = [player.candidate for player in self.remaining if player.candidate is not None]
        excluded = (player.candidate for player in self.excluded if player.candidate is not None)
        return [candidate for candidate in remaining if candidate.is_allowed] or [
            candidate
            for candidate in excluded
            if candidate.is_allowed and any(map(candidate.is_similar, remaining))
        ]

    def player(self, candidate: Candidate) -> _Player:
        """Return the player with the given candidate."""
        return next(player for player in (*self.remaining, *self.excluded) if player.candidate is candidate)


def choose_description(
    hints: Hints, network: Network, weights: int, report: Report, *, accept: bool = False
) -> tuple[Description, Evidence]:
    """Complete and check the user's description of a network by playing games.

    Args:
        hints: the fields of the description that the user gives.
        network: the trained network.
        weights: the number of the network's weights.
        report: receives the results as lines of text.
        accept: whether to accept a description that games refute or do not complete; open fields then get
            the most usual value.

    Returns:
        The description, and the scores that support it.

    Raises:
        NeedsFlags: neither the user nor the games determine every field, or the network plays better with
            another description.
        ExportError: the hints contradict the network, or its answers are random or not finite.
    """
    candidates = find_candidates(hints, network)
    if candidates.question:
        report(candidates.question)
    outcome = _play(network, candidates.all, weights)
    allowed = [candidate for candidate in candidates.all if candidate.is_allowed]
    problem = _problem(outcome, allowed)
    questions = [candidates.question] if candidates.question else []
    missing = ["--answer"] if candidates.question else []
    if problem is not None and not accept:
        best = outcome.best
        flags = ""
        if best is not None and best.value_sign == 1:
            flags = flags_with_placeholders(missing, best.description)
        wrong = f"{problem}; change the flags, or add --accept to publish the network as described"
        raise NeedsFlags("; ".join([wrong, *questions]), flags)
    if outcome.best is not None:
        allowed = outcome.allowed or allowed
    chosen, open_flags, request = choose_usual(allowed)
    if accept:
        chosen, request = allowed[0], ""
    evidence = _evidence(outcome, chosen, problem)
    divide_by = chosen.description.reads.divide_by
    if divide_by != 1 and hints.reads.divide_by is None and not accept:
        divided = f"games suggest an input divided by about {divide_by:g}; confirm it with --divide-by"
        questions, missing = [divided, *questions], ["--divide-by", *missing]
    if request:
        why = "games do not determine the whole description" if outcome.has_learned else _TOO_WEAK
        questions, missing = [f"{why}: {request}", *questions], [*open_flags, *missing]
    else:
        report(f"description: {flags_of(chosen.description)}; {summary(evidence)}")
    if questions:
        raise NeedsFlags("; ".join(questions), flags_with_placeholders(missing, chosen.description))
    return chosen.description, evidence


def summary(evidence: Evidence) -> str:
    """Return the result of the games as one line, with reasons to doubt the description."""
    others = [f"{score:,} with {name}" for name, score in list(evidence.others.items())[:_NAMED]]
    cut_short = "; fewer games were played than planned" if evidence.is_cut_short else ""
    doubts = [f"accepted although {evidence.problem}"] if evidence.problem else []
    doubts += [f"warning: {evidence.warning}"] if evidence.warning else []
    scores = (
        f"the network scores {evidence.score:,} points on average ({', '.join(others)}) in games of at most "
        f"{LONGEST_GAME} moves{cut_short}"
    )
    return "; ".join([scores, *doubts])


def _problem(outcome: _Outcome, allowed: Sequence[Candidate]) -> str | None:
    """Return what is wrong with the user's description; None if the games do not refute it."""
    if not outcome.has_learned or outcome.allowed:
        return None
    best_allowed = max(map(outcome.player, allowed), key=lambda player: player.average)
    if outcome.remaining[0].average < _REFUTING_RATIO * best_allowed.average:
        return None
    names = [
        player.candidate.name(allowed[0].description) for player in outcome.remaining if player.candidate
    ]
    return (
        f"the description seems wrong: with {' or '.join(names[:_NAMED])} the network scores "
        f"{outcome.remaining[0].average:,.0f} points on average, not {best_allowed.average:,.0f} as given "
        f"(in at least {len(best_allowed.scores)} games of at most {LONGEST_GAME} moves, with one view)"
    )


def _evidence(outcome: _Outcome, chosen: Candidate, problem: str | None) -> Evidence:
    own, best = outcome.player(chosen), outcome.best
    is_shown = best is not None and chosen.is_similar(best)
    every = sorted((*outcome.remaining, *outcome.excluded), key=lambda player: -player.average)
    others = {
        player.candidate.name(chosen.description): round(player.average)
        for player in every
        if player.candidate is not None and player is not own
    }
    return Evidence(
        games=len(own.scores),
        score=round(own.average),
        others=dict(list(others.items())[:_KEPT]),
        is_cut_short=outcome.is_cut_short,
        problem=problem,
        warning=None if is_shown or problem else _TOO_WEAK,
    )


def _play(network: Network, candidates: Sequence[Candidate], weights: int) -> _Outcome:
    """Play rounds of games until the result is clear, moves run out or all rounds are played; return it."""
    fixed_order = _Player(None)
    players = [*map(_Player, candidates), fixed_order]
    games = _Games(network, max(candidate.description.largest_exponent for candidate in candidates))
    most_moves = max(_FEWEST_MOVES, int(min(_MOST_MOVES, _MOST_PRODUCTS / max(weights, 1))))
    left, is_cut_short = players, False
    for count in _ROUNDS:
        postponed: list[_Player] = []
        if (fitting := games.affordable_players(count, most_moves) // 2) < len(left):
            left = sorted(left, key=lambda player: -player.average)
            left, postponed = left[:fitting], left[fitting:]
        is_cut_short = bool(postponed)
        if len(left) < 2:
            left += postponed
            break
        games.play(left, count)
        best = max((player for player in left if player is not fixed_order), key=lambda each: each.average)
        postponed = [player for player in postponed if not best.leads(player)]
        # The players in `left` have used at most half of the remaining moves.
        if 0 < len(postponed) <= games.affordable_players(count, most_moves):
            games.play(postponed, count)
            is_cut_short = False
        left = [player for player in players if player in (*left, *postponed) and not best.leads(player)]
        if _is_decided(left) or (count >= _GAMES_TO_LEAD_FIXED_ORDER and best.lead(fixed_order) <= 0):
            break
    excluded = [player for player in players if player not in left]
    return _Outcome(left, excluded, is_cut_short and len(left) > 1)


def _is_decided(playing: Sequence[_Player]) -> bool:
    """Return whether one candidate is left, or only similar ones and the flags allow exactly one of them."""
    candidates = [player.candidate for player in playing if player.candidate is not None]
    allowed = sum(candidate.is_allowed for candidate in candidates)
    all_alike = all(candidates[0].is_similar(candidate) for candidate in candidates)
    return len(candidates) == len(playing) and all_alike and (allowed == 1 or len(candidates) == 1)


class _Games:
    """Games of many candidates at the same time.

    Candidates with the same encoding share one batch of positions at each move.
    """

    def __init__(self, network: Network, largest_exponent: int) -> None:
        self._network = network
        self._largest_exponent = largest_exponent
        self._first = 0
        self._moves_made = 0

    def affordable_players(self, games: int, most_moves: int) -> int:
        """Return an estimate of how many players can play `games` more games each.

        The limit is `most_moves` moves for all players together, including the moves made so far.
        """
        if not self._first:
            return most_moves
        return int(max(0, most_moves - self._moves_made) / (games * self._moves_made / self._first))

    def play(self, players: Sequence[_Player], games: int) -> None:
        """Play `games` more games with each player.

        A game stops after `LONGEST_GAME` moves and counts with its score so far.
        """
        count = len(players) * games
        episodes = Episodes(_SEED, range(self._first, self._first + count), self._largest_exponent)
        scores = np.zeros(count, np.int64)
        candidates = [player.candidate for player in players if player.candidate is not None]
        columns = np.array([candidate.description.answers.columns for candidate in candidates])
        signs = np.array([[candidate.value_sign] for candidate in candidates])
        encodings = list(dict.fromkeys(candidate.description.reads for candidate in candidates))
        encoding_of = np.array([encodings.index(candidate.description.reads) for candidate in candidates])
        descriptions = {candidate.description.reads: candidate.description for candidate in candidates}
        for _ in range(LONGEST_GAME):
            if not len(episodes.running):
                break
            self._moves_made += len(episodes.running)
            player_of = (episodes.running - self._first) // games
            move_values = np.tile(_FIXED_ORDER_VALUES, (len(player_of), 1))
            for at, reads in enumerate(encodings):
                mine = (player_of < len(candidates)) & (
                    encoding_of[np.minimum(player_of, len(candidates) - 1)] == at
                )
                if mine.any():
                    players_here = player_of[mine]
                    move_values[mine] = self._move_values(
                        descriptions[reads], episodes.boards[mine], columns[players_here], signs[players_here]
                    )
            move_values = np.where(episodes.legal, np.maximum(move_values, np.finfo(np.float64).min), -np.inf)
            for ended in episodes.step(move_values.argmax(axis=1)):
                scores[ended.game - self._first] = ended.score
        scores[episodes.running - self._first] = episodes.scores
        for player, new in zip(players, scores.reshape(-1, games).tolist(), strict=True):
            player.scores += new
        self._first += count

    def _move_values(
        self,
        description: Description,
        boards: NDArray[np.uint8],
        columns: NDArray[np.intp],
        signs: NDArray[np.int64],
    ) -> Numbers:
        """Return the values `[N, 4]` of up, right, down and left on boards `[N, 16]`.

        `description` defines the encoding of the boards. `columns` `[N, 4]` gives the position of each move's
        number in the output. Afterstate values are multiplied by `signs` `[N, 1]`.
        """
        evaluate = partial(_in_batches, network_evaluation(self._network, description))
        if description.answers.width == 4:
            return np.take_along_axis(evaluate(boards), columns, axis=1)
        rewards = afterstates(boards)[1]
        return rewards + signs * (plain_head(description, evaluate).scores(boards, 0) - rewards)


def _in_batches(evaluate: Evaluate, views: NDArray[np.uint8]) -> Numbers:
    return np.concatenate(
        [evaluate(views[first : first + _BATCH]) for first in range(0, max(len(views), 1), _BATCH)]
    )
