"""Limits that end a compiled search early: a deadline, or a flag that another thread sets.

A search counts the positions that it visits. Every few hundred positions, which take much less than a
millisecond, it checks the clock and the flag. It reads both without the interpreter's lock.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.cgutils import alloca_once, get_or_insert_function
from numba.extending import intrinsic
from numpy.typing import NDArray
from octofold_game.compiling import njit

RUNNING, STOPPED, TABLE_FULL, TURN_OVER = range(4)
"""Values of `State.ended`: the search is running, or the reason why it ended."""
NEVER = np.iinfo(np.int64).max

State = np.dtype(
    [
        ("ended", np.int64),  # `RUNNING`, or the reason why the search ended
        ("positions", np.int64),  # number of visited positions
        ("next_look", np.int64),  # value of `positions` at which to check the clock and the flag next
        ("deadline", np.int64),  # time of `clock` at which the search ends
        ("stop_flag", np.int64),  # address of the flag that ends the search; 0 without a flag
        ("entries", np.int64),  # number of entries that the search has written to a transposition table
        ("grows", np.int64),  # whether a full table ends the search
        ("turn_end", np.int64),  # time of `clock` after which the search begins no further board
    ]
)
"""The state of a search, shared by all its calls."""

_POSITIONS_BETWEEN_LOOKS = 512


def new_state(
    deadline: int = NEVER, stop: NDArray[np.uint8] | None = None, turn_end: int = NEVER
) -> NDArray[np.void]:
    """Return the state `[1]` of a new search. The array `stop` `[1]` must exist as long as the search."""
    endless = deadline == NEVER and stop is None
    flag = 0 if stop is None else stop.ctypes.data
    return np.array([(RUNNING, 0, NEVER if endless else 0, deadline, flag, 0, 0, turn_end)], State)


def deadline_in(seconds: float) -> int:
    """Return the time of `clock` that is `seconds` after this call; `NEVER` above 1e9 seconds and for NaN."""
    if seconds > 1e9 or math.isnan(seconds):
        return NEVER
    return int(clock()) + int(1e9 * seconds)


@njit(cache=True, nogil=True)
def count_and_check_stop(state, positions):
    """Count visited positions. End the search if its deadline has passed or its flag is set."""
    state[0].positions += positions
    if state[0].positions >= state[0].next_look:
        state[0].next_look = state[0].positions + _POSITIONS_BETWEEN_LOOKS
        if (state[0].stop_flag and _byte_at(state[0].stop_flag)) or (
            state[0].deadline != NEVER and clock() >= state[0].deadline
        ):
            state[0].ended = STOPPED


@njit(cache=True, nogil=True)
def may_begin(state, n):
    """Return whether a search may begin board `n`. After `turn_end`, end the search unless `n` is 0."""
    if n > 0 and state[0].turn_end != NEVER and clock() >= state[0].turn_end:
        state[0].ended = TURN_OVER
        return False
    return True


def _read_clock(_typing_context):
    """Read the system's monotonic clock in nanoseconds, by a call of the C library from compiled code."""

    def generate(_context, builder, _signature, _arguments):
        integer, long = ir.IntType(32), ir.IntType(64)
        found = alloca_once(builder, ir.LiteralStructType([long, long]))
        function = get_or_insert_function(
            builder.module, ir.FunctionType(integer, [integer, found.type]), "clock_gettime"
        )
        builder.call(function, [ir.Constant(integer, time.CLOCK_MONOTONIC), found])
        read = builder.load(found)
        seconds, nanoseconds = (builder.extract_value(read, n) for n in (0, 1))
        return builder.add(builder.mul(seconds, ir.Constant(long, 10**9)), nanoseconds)

    return types.int64(), generate


def _read_byte(_typing_context, _address):
    """Read the byte at an address from memory each time, because another thread may change it."""

    def generate(_context, builder, _signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load_atomic(pointer, "monotonic", 1), ir.IntType(64))

    return types.int64(types.int64), generate


_clock: Any = intrinsic(_read_clock)
_byte_at: Any = intrinsic(_read_byte)


@njit(cache=True, nogil=True)
def clock():
    """Return the time of the system's monotonic clock, in nanoseconds."""
    return _clock()
