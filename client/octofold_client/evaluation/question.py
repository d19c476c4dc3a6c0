"""What a comparison is asked: whether one player is no worse than another, or whether two are equal."""

from dataclasses import dataclass
from fractions import Fraction

from octofold_client.evaluation.intervals import Interval


@dataclass(frozen=True)
class Question:
    """Whether the second player is at most `margin` worse than the first, or both are equal within it.

    The answer follows from the interval of the ratio of the averages, second over first: yes if the margin
    encloses the interval, no if they have nothing in common (Westlake, "Use of confidence intervals in
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
        return f"{float(100 * self.margin):g}%"

    def answer(self, ratio: Interval | None) -> bool | None:
        """The answer for this interval of the ratio; None while it is open."""
        if ratio is None:
            return None
        low, high = ratio
        least = float(1 - self.margin)
        most = float(1 / (1 - self.margin)) if self.equal else float("inf")
        if least <= low and high <= most:
            return True
        return False if high < least or most < low else None

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
