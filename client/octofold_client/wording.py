"""Formats counts, durations, tables and errors for people."""

from collections.abc import Iterable, Sequence

_MOST_DECIMALS = 9


def counted(number: int, noun: str) -> str:
    """Format a count such as "1 game" or "2,000 games"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Iterable[str]) -> str:
    """Join the names with commas. Return "none" if there are no names."""
    return ", ".join(names) or "none"


def decimals_for(limits: Sequence[float], marks: Sequence[float], least: int = 0) -> int:
    """Return the fewest decimals, at least `least`, that keep each limit on its side of each mark; at most 9.

    For example, an interval that excludes the mark 0 still excludes it after rounding.
    """

    def side(value: float) -> list[tuple[bool, bool]]:
        return [(value < mark, value > mark) for mark in marks]

    for decimals in range(least, _MOST_DECIMALS):
        if all(side(float(f"{limit:.{decimals}f}")) == side(limit) for limit in limits):
            return decimals
    return _MOST_DECIMALS


def describe(error: Exception) -> str:
    """Return the message of an error; for an `OSError`, the file and the reason, without the error number."""
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror[0].lower() + error.strerror[1:]
        return f"{error.filename}: {reason}" if error.filename is not None else reason
    return str(error)


def duration(seconds: float) -> str:
    """Format a duration in seconds, such as "40 s", "3 min" or "1.5 h"; less than a second is "1 s"."""
    if seconds < 90:
        return f"{max(1.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table, headings first. Columns after the first are right-aligned."""
    cells = [[" ".join(cell.split()).replace("|", r"\|") for cell in line] for line in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    first, *others = widths
    lines = [
        "| " + " | ".join([f"{line[0]:<{first}}", *map(str.rjust, line[1:], others)]) + " |" for line in cells
    ]
    lines.insert(1, "|".join(["", "-" * (first + 2), *("-" * (width + 1) + ":" for width in others), ""]))
    return lines
