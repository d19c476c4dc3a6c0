"""What a comparison is asked: whether a player is better or no worse than another, or as good as it."""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

from octofold_game.contract.model import Interval

from octofold_client.evaluation.sequential import ERROR_RATE, Bets

NO_WORSE, EQUAL, BETTER = "no-worse-than", "equal-within", "better-than"
"""The kinds of questions, by the flags of `octofold compare`."""


@dataclass(frozen=True)
class Finding:
    """The answer to a question, and the limits of the ratio from which it follows."""

    yes: bool | None
    """None while it is open."""
    ratio_interval: Interval
    """The ratios of the averages, second over first, that are not refuted."""
    limit_error_rate: float
    """Each limit is wrong in at most this share of all runs."""


@dataclass(frozen=True)
class Question:
    """Whether the second player is at most `margin` worse than the first, equal within it, or better by it.

    The answer follows from the ratios of the averages, second over first, that the bets have not refuted: yes
    if the margin encloses all of them, no if it encloses none (Westlake, "Use of confidence intervals in
    analysis of comparative bioavailability trials", 1972).
    """

    margin: Fraction
    """Share of an average score, below 1; 0 only for `BETTER`."""
    kind: str = NO_WORSE
    """`NO_WORSE`, `EQUAL` or `BETTER`."""

    @property
    def flag(self) -> str:
        """The flag of `octofold compare` that asks this."""
        return f"--{self.kind} {self.percent}"

    @property
    def percent(self) -> str:
        """The margin in percent."""
        return f"{float(100 * self.margin):.6f}".rstrip("0").rstrip(".") + "%"

    @property
    def ratios(self) -> Interval:
        """The smallest and the largest ratio, second over first, that is a yes."""
        if self.kind == BETTER:
            return float(1 + self.margin), inf
        return float(1 - self.margin), float(1 / (1 - self.margin)) if self.kind == EQUAL else inf

    @property
    def margins(self) -> Interval:
        """What a yes and a no, or for equality both sides of a yes, grant: see `Bets.ratio_limits`."""
        margin = float(self.margin)
        return -margin if self.kind == BETTER else margin, -margin if self.kind == NO_WORSE else margin

    def answer(self, bets: Bets) -> Finding:
        """The answer after these bets; a yes and a no are wrong in at most `ERROR_RATE` of all runs each."""
        least, most = self.ratios
        low, high = limits = bets.ratio_limits(ERROR_RATE, self.margins)
        if least <= low and high <= most:
            return Finding(True, limits, ERROR_RATE)
        if self.kind != EQUAL:
            return Finding(False if high < least else None, limits, ERROR_RATE)
        # A yes must pass both tests, so it errs no more often than one of them. A no must pass one of two.
        low, high = limits = bets.ratio_limits(ERROR_RATE / 2, self.margins)
        return Finding(False if high < least or most < low else None, limits, ERROR_RATE / 2)

    def sentence(self, first: str, second: str, answer: bool | None) -> str:
        """The answer in words, without the figures."""
        if self.kind == EQUAL:
            claim = f"{first} and {second} are equal within {self.percent}"
            refuted = f"{first} and {second} differ by more than {self.percent}"
        elif self.kind == NO_WORSE:
            claim = f"{second} is at most {self.percent} worse than {first}"
            refuted = f"{second} is more than {self.percent} worse than {first}"
        else:
            by = f" by at least {self.percent}" if self.margin else ""
            claim = f"{second} is better than {first}{by}"
            refuted = f"{second} is not better than {first}{by}"
        if answer is None:
            return f"Not decided whether {claim}."
        return f"{claim if answer else refuted}."
