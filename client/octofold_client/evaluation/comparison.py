"""Compares two players by their games: the average difference, the answer to a question, and both in words.

Players that played the same games of one seed are compared game by game.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from octofold_game.contract.model import Interval
from octofold_game.contract.results import FIRST_GAMES

from octofold_client.evaluation.intervals import FEWEST, difference_interval, independent_interval
from octofold_client.evaluation.question import Finding, Question
from octofold_client.evaluation.sequential import CAP, ERROR_RATE, Bets
from octofold_client.evaluation.sides import Side
from octofold_client.wording import counted, decimals_for


@dataclass(frozen=True)
class Comparison:
    """The comparison of two players over the games that both finished, or over all if they played others."""

    first: str
    second: str
    first_scores: NDArray[np.int64]
    """`[N]`; if the games are paired, element `i` of both arrays is the same game."""
    second_scores: NDArray[np.int64]
    interval: Interval | None
    """95% interval of the average difference, second minus first; None for too few games."""
    paired: bool
    """Whether both played the same games."""
    bets: Bets | None = None
    """The bets of the sequential test, if the answer or the interval follows from them."""
    looked_at_on_the_way: bool = False
    """Whether the interval is that of the bets, which is valid at any stop."""
    firm_games: int | None = None
    """Number of games before the first missing one, the only ones that bet; None if no game is missing."""
    question: Question | None = None
    """What was asked; None: which of them is better."""
    found: Finding | None = None
    """The answer to the question; None without one, and for too few games."""
    capped: bool = True
    """Whether the bets count scores only up to a cap."""
    corrected_for: int = 1
    """Number of comparisons for which the interval is corrected."""
    p_value: float | None = None
    """Corrected as the interval; None if it was not computed."""

    @classmethod
    def of(
        cls,
        first: Side,
        second: Side,
        looked_at_on_the_way: bool = False,
        *,
        question: Question | None = None,
        capped: bool = True,
        pairs: int = 1,
    ) -> "Comparison":
        """Compare two sides of `sides.in_common`.

        Args:
            first: the first player, A of the question; its scores set the cap.
            second: the second player.
            looked_at_on_the_way: whether the interval must be valid at any stop; where games are missing, it
                is always such an interval.
            question: what is asked.
            capped: whether the bets count scores only up to a cap.
            pairs: number of comparisons that are made. If there are more than one, and they are not looked at
                on the way, the interval is left to `contest.pair_differences`.
        """
        paired = first.conditions.seed == second.conditions.seed
        ours, theirs = (np.array(list(side.scores.values())) for side in (first, second))
        firms = [side.firm_games for side in (first, second) if side.firm_games is not None]
        firm = min([len(ours), len(theirs), *firms]) if firms else None
        looked_at_on_the_way = looked_at_on_the_way or firm is not None
        bets: Bets | None = None
        if looked_at_on_the_way or question is not None:
            number = min(len(ours), len(theirs)) if firm is None else firm
            exponents = first.largest_exponent, second.largest_exponent
            bets = Bets.of(ours[:number], theirs[:number], exponents, capped)
        interval: Interval | None = None
        if looked_at_on_the_way:
            interval = None if bets is None else bets.difference_limits(ERROR_RATE / 2 / pairs)
        elif pairs == 1:
            interval = difference_interval(theirs - ours) if paired else independent_interval(ours, theirs)
        return cls(
            first=first.name,
            second=second.name,
            first_scores=ours,
            second_scores=theirs,
            interval=interval,
            paired=paired,
            bets=bets,
            looked_at_on_the_way=looked_at_on_the_way,
            firm_games=firm,
            question=question,
            found=question.answer(bets) if question is not None and bets is not None else None,
            capped=capped,
            corrected_for=pairs,
        )

    @property
    def difference(self) -> float:
        """Average difference in score, second minus first; that of the bets if the interval is theirs."""
        if self.looked_at_on_the_way and self.bets is not None:
            return self.bets.difference
        return float(np.mean(self.second_scores) - np.mean(self.first_scores))

    @property
    def lead(self) -> tuple[str, str, float, Interval | None]:
        """The better player, the other one, and how much more the better one scores, with the interval."""
        if self.difference >= 0:
            return self.second, self.first, self.difference, self.interval
        turned = None if self.interval is None else (-self.interval[1], -self.interval[0])
        return self.first, self.second, -self.difference, turned

    @property
    def won_by_second(self) -> float:
        """Share of the games in which the second player scored more; equal scores count half.

        If the games are not paired: the share of all pairs of a game of each player.
        """
        if self.paired:
            return float(np.mean((np.sign(self.second_scores - self.first_scores) + 1) / 2))
        ordered = np.sort(self.first_scores)
        lower, higher = (np.searchsorted(ordered, self.second_scores, side) for side in ("left", "right"))
        return float(np.mean((lower + higher) / (2 * len(ordered))))

    @property
    def equal_games(self) -> int | None:
        """Number of games in which both scored the same; None if they did not play the same games."""
        return int(np.count_nonzero(self.first_scores == self.second_scores)) if self.paired else None

    @property
    def too_alike(self) -> bool:
        """Whether too few games differ for an interval that is not valid at any stop."""
        games = min(len(self.first_scores), len(self.second_scores))
        return games - (self.equal_games or 0) < FEWEST

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    @property
    def answer(self) -> bool | None:
        """The answer to the question; None if it is open, or if nothing special was asked."""
        return None if self.found is None else self.found.yes

    @property
    def decided(self) -> bool:
        """Whether the question is answered, or without one, whether the interval excludes zero."""
        return self.clear if self.question is None else self.answer is not None

    @property
    def sentence(self) -> str:
        """The result in words."""
        said = self._difference_in_words if self.question is None else self._answer_in_words(self.question)
        return " ".join(filter(None, (said, self._cap_in_words, self._sameness_in_words)))

    @property
    def interval_in_words(self) -> str:
        """The kind of the interval."""
        stop = ", valid at any stop," if self.looked_at_on_the_way else ""
        many = f", corrected for {self.corrected_for} comparisons," if self.corrected_for > 1 else ""
        return f"95% interval{stop}{many.removeprefix(',') if stop else many}"

    def _answer_in_words(self, question: Question) -> str:
        said = question.sentence(self.first, self.second, self.answer)
        if self.found is None or self.bets is None:
            return f"{said} {self._too_few}; {self._games_in_words}."
        ratios = [100 * ratio for ratio in (self.bets.ratio, *self.found.ratio_interval)]
        decimals = decimals_for(ratios[1:], [100 * ratio for ratio in question.ratios], least=1)
        found, low, high = (f"{ratio:,.{decimals}f}%" for ratio in ratios)
        return (
            f"{said} {self.second} scores {found} of the average of {self.first} ({low} to {high}, valid "
            f"at any stop; each limit is wrong in at most {self.found.limit_error_rate:.1%} of all runs); "
            f"{self._games_in_words}."
        )

    @property
    def _difference_in_words(self) -> str:
        better, _, difference, limits = self.lead
        if limits is None:
            lead = "" if self.firm_games is not None else f": {better} +{round(difference):,}"
            return f"No significant difference yet{lead}. {self._too_few}; {self._games_in_words}."
        decimals = decimals_for(limits, [0])
        amount, low, high = (f"{value:,.{decimals}f}" for value in (difference, *limits))
        interval = f"({self.interval_in_words} {low} to {high})"
        if self.clear:
            return f"{better} scores {amount} more on average {interval}; {self._games_in_words}."
        return f"No significant difference yet: {better} +{amount} {interval}; {self._games_in_words}."

    @property
    def _too_few(self) -> str:
        """Why there is no interval."""
        if self.looked_at_on_the_way or self.question is not None:
            games, least = min(len(self.first_scores), len(self.second_scores)), FIRST_GAMES * self.capped
            if least < (games if self.firm_games is None else self.firm_games):
                return f"The bets tell nothing, because {self.first} scores nothing that counts"
            takes = f"takes more than {counted(least, 'game')}" if least else "takes a game"
            if self.firm_games is None:
                return f"This {takes}"
            firm = counted(self.firm_games, "game")
            return f"Only the {firm} before the first one that is missing can tell, and this {takes}"
        which = " in which they differ" if self.paired else ""
        return f"An interval takes at least {FEWEST} games{which}"

    @property
    def _games_in_words(self) -> str:
        numbers = len(self.first_scores), len(self.second_scores)
        if self.firm_games is not None and self.bets is not None:
            return f"the first {counted(self.firm_games, 'game')} each"
        if self.paired:
            return f"{counted(numbers[0], 'game')} each"
        return f"not the same games: {numbers[0]:,} and {counted(numbers[1], 'game')}"

    @property
    def _cap_in_words(self) -> str:
        if self.bets is None or self.bets.cap is None or self.bets.above_cap is None:
            return ""
        first, second = self.bets.above_cap
        return (
            f"Scores count up to {self.bets.cap:,}, {CAP} times the average of {self.first} in the first "
            f"{FIRST_GAMES} games, which set it and do not count. {first:.1%} of the other games of "
            f"{self.first} and {second:.1%} of those of {self.second} score more."
        )

    @property
    def _sameness_in_words(self) -> str:
        games = len(self.first_scores)
        if self.equal_games != games or games < FEWEST:
            return ""
        rarest = 1 - ERROR_RATE ** (1 / games)
        return (
            f"Both scored the same in each of the {games:,} games, as two copies of one player do. If they "
            f"are none, they differ in less than {100 * rarest:.2g}% of all games (95% confidence)."
        )

    def to_json(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        bets, found = self.bets, self.found
        return {
            "first": self.first,
            "second": self.second,
            "paired": self.paired,
            "games": [len(self.first_scores), len(self.second_scores)],
            "firm_games": self.firm_games,
            "equal_games": self.equal_games,
            "difference": self.difference,
            "interval": None if self.interval is None else list(self.interval),
            "p_value": self.p_value,
            "clear": self.clear,
            "won_by_second": self.won_by_second,
            "bets": bets and {"games": len(bets.first), "cap": bets.cap, "above_cap": bets.above_cap},
            "ratio": bets and bets.ratio,
            "ratio_interval": found and list(found.ratio_interval),
            "limit_error_rate": found and found.limit_error_rate,
            "sentence": self.sentence,
        }
