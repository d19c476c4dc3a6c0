"""Reads the integers of a JSON tensor, flat or nested once, into an array.

A JSON decoder reads a small tensor. It would make a million Python objects of a large one and block all other
threads meanwhile, so numpy reads a large tensor directly from the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from octofold_proto.errors import InvalidRequest

from octofold_server.system.quoting import quoted

LARGE_TEXT_BYTES = 65_536
"""Minimum size of a text that numpy reads."""

_NESTED_ONCE = msgspec.json.Decoder(list[int | list[int]])
_LARGEST = np.iinfo(np.int64).max
_LONGEST_SHOWN = 18  # digits that fit into an int64
_OPEN, _CLOSE = b"[]"
_ALLOWED = np.zeros(256, dtype=np.bool_)
_ALLOWED[list(b"0123456789-,[] \t\r\n")] = True


def integers(text: bytes, name: str) -> NDArray[np.integer[Any]]:
    """Read integers into a one-dimensional array.

    Args:
        text: a well-formed JSON value.
        name: name of the input, for errors.

    Raises:
        InvalidRequest: the value is not an array of integers or of arrays of integers.
    """
    if len(text) >= LARGE_TEXT_BYTES:
        return _from_text(np.frombuffer(text, dtype=np.uint8), name)
    try:
        return _from_list(_NESTED_ONCE.decode(text))
    except (ValueError, RecursionError) as error:
        hint = " (write 1, not 1.0)" if "`float`" in str(error) else ""
        raise InvalidRequest(f"data of input {quoted(name)}: {error}{hint}") from error


def _from_list(data: Sequence[int | list[int]]) -> NDArray[np.integer[Any]]:
    flat: list[int] = []
    for element in data:
        if isinstance(element, list):
            flat += element
        else:
            flat.append(element)
    try:
        return np.frombuffer(bytes(flat), dtype=np.uint8)
    except ValueError:  # one does not fit into a byte
        pass
    try:
        return np.array(flat, dtype=np.int64)
    except OverflowError:  # JSON does not limit integers
        return np.array([max(-1, min(element, _LARGEST)) for element in flat], dtype=np.int64)


def _from_text(text: NDArray[np.uint8], name: str) -> NDArray[np.integer[Any]]:
    """Read integers of up to two digits. The first larger or negative one is read too; all after it are 0.

    A valid board has no such integer, and the error names only the first one.
    """
    _check_nesting(text, name)
    digits = text - ord("0")  # other characters wrap around to 10 or more
    is_digit = digits < 10
    starts = is_digit.copy()
    starts[1:] &= ~is_digit[:-1]
    has_second = np.zeros_like(starts)
    has_second[:-1] = starts[:-1] & is_digit[1:]
    digits[:-1] = np.where(has_second[:-1], digits[:-1] * 10 + digits[1:], digits[:-1])
    values = digits[starts]
    # The first digits of numbers that are negative or have three digits. -0 is 0, which is neither.
    odd = starts.copy()
    odd[0] = False
    odd[1:] &= (text[:-1] == ord("-")) & (text[1:] != ord("0"))
    odd[:-2] |= has_second[:-2] & is_digit[2:]
    if not odd.any():
        return values
    at = int(odd.argmax())
    first = int(np.count_nonzero(starts[:at]))
    wide = np.zeros(len(values), dtype=np.int64)
    wide[:first] = values[:first]
    length = int(np.append(is_digit[at : at + _LONGEST_SHOWN], False).argmin())
    value = int(text[at : at + length].tobytes())
    wide[first] = -value if at and text[at - 1] == ord("-") else value
    return wide


def _check_nesting(text: NDArray[np.uint8], name: str) -> None:
    allowed = _ALLOWED[text]
    if not allowed.all():
        found = bytes(text[int(allowed.argmin()) :][:1]).decode("latin-1")
        hint = " (write 1, not 1.0)" if found == "." else ""
        raise InvalidRequest(f"data of input {quoted(name)} has {found!r} where only integers belong{hint}")
    brackets = text[(text == _OPEN) | (text == _CLOSE)]
    rows = brackets[1:-1]  # between the outermost pair, each row opens and closes
    if not len(brackets) or (rows[0::2] != _OPEN).any() or (rows[1::2] != _CLOSE).any():
        raise InvalidRequest(
            f"data of input {quoted(name)} is not an array of integers, nor of arrays of integers"
        )
