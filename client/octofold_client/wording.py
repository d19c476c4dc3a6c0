"""Formats counts, durations and errors for people."""

from collections.abc import Iterable, Sequence

_MOST_DECIMALS = 9


def counted(number: int, noun: str, plural: str = "") -> str:
    """A count such as "1 game" or "2,000 games"; `plural` replaces the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def listed(names: Iterable[str]) -> str:
    """The names separated by commas, or "none"."""
    return ", ".join(names) or "none"


def rounded(values: Sequence[float], marks: Sequence[float], decimals: int = 0, sign: str = "") -> list[str]:
    """The values with as few decimals as keep each on its side of each mark, so that no figure contradicts.

    Args:
        values: limits of an interval, and others that get as many decimals.
        marks: the values that decide, such as 0.
        decimals: the fewest decimals.
        sign: "+" to write the sign of positive values, too.
    """

    def side(value: float) -> list[tuple[bool, bool]]:
        return [(value < mark, value > mark) for mark in marks]

    texts: list[str] = []
    for digits in range(decimals, _MOST_DECIMALS + 1):
        texts = [f"{value:{sign},.{digits}f}" for value in values]
        if [side(float(text.replace(",", ""))) for text in texts] == [side(value) for value in values]:
            break
    return texts


def described(error: Exception) -> str:
    """The message of an error; for an `OSError`, the file and the reason without the error number."""
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror[0].lower() + error.strerror[1:]
        return f"{error.filename}: {reason}" if error.filename is not None else reason
    return str(error)


def duration(seconds: float) -> str:
    """A duration such as "40 s", "5 min" or "2.5 h"."""
    number, unit = _scaled(seconds)
    return f"{number} {unit}"


def duration_range(low: float, high: float) -> str:
    """A range such as "5 to 40 s" or "50 s to 3 min"; "about 40 s" if both ends are almost the same."""
    (first, first_unit), (last, last_unit) = _scaled(max(1.0, low)), _scaled(max(1.0, high))
    if (first, first_unit) == (last, last_unit) or high < 1.2 * low:
        return f"about {last} {last_unit}"
    return f"{first}{'' if first_unit == last_unit else f' {first_unit}'} to {last} {last_unit}"


def _scaled(seconds: float) -> tuple[str, str]:
    if seconds < 90:
        return f"{seconds:.0f}", "s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f}", "min"
    return f"{seconds / 3600:.1f}", "h"
