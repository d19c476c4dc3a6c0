"""What a message asks for, whichever protocol it came by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from octofold_server.batching.call import Priority

TRACE_HEADERS = ("traceparent", "tracestate")
"""The names under which a caller's W3C Trace Context travels, as metadata or as HTTP headers."""

Headers = Sequence[tuple[str, str | bytes]]
"""What came with a call beside its message: names in lower case, and values."""

ReadBoards = Callable[[int], NDArray[np.uint8]]
"""Returns the boards [N, 16] uint8 of a call, N at least 1, checked against a largest exponent; raises
BoardError or InvalidRequest. It may be asked twice, when another version takes over in between."""


class Request(NamedTuple):
    """What a decoded message asks for. Its boards have not been checked; everything else has."""

    model: str  # empty: the default
    version: str  # empty: the newest ready
    read_boards: ReadBoards
    priority: Priority = Priority.INTERACTIVE
    timeout_seconds: float = math.inf  # from now on, beside the deadline of the transport
    outputs: Sequence[str] = ()  # names, each known and once
