"""Checks the tuples and stages of a network."""

from itertools import pairwise

LONGEST_TUPLE = 7
"""Maximum number of cells of a tuple. A table for 7 cells has 268 million entries."""


def check_tuples(tuples: tuple[tuple[int, ...], ...]) -> None:
    """Raise `ValueError` unless there are tuples, each of 1 to 7 ascending cells, and all of one length."""
    if not tuples:
        raise ValueError("tuples must contain at least one tuple")
    for cells in tuples:
        if len(cells) != len(tuples[0]) or not 1 <= len(cells) <= LONGEST_TUPLE:
            raise ValueError(
                f"tuple {list(cells)}: all tuples must have the same length, 1 to {LONGEST_TUPLE} cells; the "
                f"first has {len(tuples[0])}"
            )
        known = all(type(cell) is int and 0 <= cell <= 15 for cell in cells)
        if not known or any(b <= a for a, b in pairwise(cells)):
            raise ValueError(
                f"tuple {list(cells)}: cells must be whole numbers from 0 to 15, in ascending order"
            )


def check_stages(stages: tuple[int, ...]) -> None:
    """Raise `ValueError` unless the stages are exponents from 1 to 15 in descending order."""
    if any(type(exponent) is not int or not 1 <= exponent <= 15 for exponent in stages):
        raise ValueError(f"stages {list(stages)}: each must be a whole number from 1 to 15")
    if any(following >= exponent for exponent, following in pairwise(stages)):
        raise ValueError(f"stages {list(stages)}: they must be in descending order")
