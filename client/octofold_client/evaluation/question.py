"""What a comparison is asked: whether one player is no worse than another, or whether two are equal."""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

from octofold_game.contract.model import Interval

from octofold_client.evaluation.sequential import ERROR_RATE, Bets


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
    """Whether the second player is at most `margin` worse than the first, or both are equal within it.

    The answer follows from the ratios of the averages, second over first, that the bets have not refuted: yes
    if the margin encloses all of them, no if it encloses none (Westlake, "Use of confidence intervals in
    analysis of comparative bioavailability trials", 1972).
    """

    margin: Fraction
    """Share of an average score, above 0 and below 1."""
    equal: bool = False
    """Whether both players are asked to be equal: neither is worse than the other by more than the margin."""

    @property
    def flag(self) -> str:
        """The flag of `octofold compare` that asks this."""
        return f"--{'equal-within' if self.equal else 'no-worse-than'} {self.percent}"

    @property
    def percent(self) -> str:
        """The margin in percent."""
        return f"{float(100 * self.margin):.6f}".rstrip("0").rstrip(".") + "%"

    @property
    def ratios(self) -> Interval:
        """The smallest and the largest ratio, second over first, that is a yes."""
        return float(1 - self.margin), float(1 / (1 - self.margin)) if self.equal else inf

    def answer(self, bets: Bets) -> Finding:
        """The answer after these bets; a yes and a no are wrong in at most `ERROR_RATE` of all runs each."""
        least, most = self.ratios
        low, high = limits = bets.ratio_limits(ERROR_RATE)
        if least <= low and high <= most:
            return Finding(True, limits, ERROR_RATE)
        if not self.equal:
            return Finding(False if high < least else None, limits, ERROR_RATE)
        # A yes must pass both tests, so it errs no more often than one of them. A no must pass one of two.
        low, high = limits = bets.ratio_limits(ERROR_RATE / 2)
        return Finding(False if high < least or most < low else None, limits, ERROR_RATE / 2)

    def sentence(self, first: str, second: str, answer: bool | None) -> str:
        """The answer in words, without the figures."""
        if self.equal:
            if answer is None:
                return f"Not decided yet whether {first} and {second} are equal within {self.percent}."
            found = "are equal within" if answer else "differ by more than"
            return f"{first} and {second} {found} {self.percent}."
        if answer is None:
            return f"Not decided yet whether {second} is at most {self.percent} worse than {first}."
        return f"{second} is {'at most' if answer else 'more than'} {self.percent} worse than {first}."
