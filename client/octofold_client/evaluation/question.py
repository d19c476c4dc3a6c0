"""Questions about two players: superiority, non-inferiority and equivalence of the second to the first."""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

from octofold_game.contract.model import Interval

from octofold_client.evaluation.sequential import ERROR_RATE, BettingTest

NO_WORSE, EQUAL, BETTER = "no-worse-than", "equal-within", "better-than"
"""The kinds of questions; each is the name of an option of `octofold compare`."""


@dataclass(frozen=True)
class Finding:
    """The answer to a question, and the interval from which it follows."""

    yes: bool | None
    """The answer; None while it is undecided."""
    ratio_interval: Interval
    """Confidence interval of the ratio of the averages, second over first, valid at any look."""
    limit_error_rate: float
    """Maximum error probability of each limit of `ratio_interval`."""


@dataclass(frozen=True)
class Question:
    """A question: is the second player better than the first by `margin`, at most `margin` worse, or equal?

    Equal means that the smaller average is at most `margin` below the larger one. The bets give a confidence
    interval of the ratio of the averages, second over first. The answer is yes if this interval lies within
    `ratios`, and no if it lies entirely outside (Westlake, "Use of confidence intervals in analysis of
    comparative bioavailability trials", 1972).
    """

    margin: Fraction
    """Share of the first average, or of the larger one for `EQUAL`; below 1, and 0 only for `BETTER`."""
    kind: str = NO_WORSE
    """`NO_WORSE`, `EQUAL` or `BETTER`."""

    @property
    def flag(self) -> str:
        """The option of `octofold compare` that asks this question, with its value."""
        return f"--{self.kind} {self.percent}"

    @property
    def percent(self) -> str:
        """The margin in percent, as text."""
        return f"{float(100 * self.margin):.6f}".rstrip("0").rstrip(".") + "%"

    @property
    def ratios(self) -> Interval:
        """The smallest and the largest ratio, second average over first, for which the answer is yes."""
        if self.kind == BETTER:
            return float(1 + self.margin), inf
        return float(1 - self.margin), float(1 / (1 - self.margin)) if self.kind == EQUAL else inf

    @property
    def margins(self) -> Interval:
        """The `margins` for `BettingTest.ratio_limits` with which this question needs the fewest games."""
        margin = float(self.margin)
        return -margin if self.kind == BETTER else margin, -margin if self.kind == NO_WORSE else margin

    def answer(self, bets: BettingTest) -> Finding:
        """Return the answer after these bets. It is wrong in at most `ERROR_RATE` of all runs."""
        least, most = self.ratios
        low, high = limits = bets.ratio_limits(ERROR_RATE, self.margins)
        if least <= low and high <= most:
            return Finding(True, limits, ERROR_RATE)
        if self.kind != EQUAL:
            return Finding(False if high < least else None, limits, ERROR_RATE)
        # Yes requires both one-sided tests to reject, so its error rate is that of one test. For no, one
        # rejection is enough, so each test gets half of the error rate.
        low, high = limits = bets.ratio_limits(ERROR_RATE / 2, self.margins)
        return Finding(False if high < least or most < low else None, limits, ERROR_RATE / 2)

    def sentence(self, first: str, second: str, answer: bool | None) -> str:
        """Return the answer as a sentence about the players of these names; None means undecided."""
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
            return f"The games do not decide whether {claim}."
        return f"{claim if answer else refuted}."
