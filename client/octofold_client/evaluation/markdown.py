"""Markdown tables with aligned columns, which are also readable as plain text."""

from collections.abc import Sequence


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table; the first column is aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    first, *others = widths
    lines = [
        "| " + " | ".join([f"{line[0]:<{first}}", *map(str.rjust, line[1:], others)]) + " |" for line in cells
    ]
    lines.insert(1, "|".join(["", "-" * (first + 2), *("-" * (width + 1) + ":" for width in others), ""]))
    return lines
