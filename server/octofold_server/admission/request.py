"""A decoded request, independent of its protocol."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray
from octofold_proto.errors import InvalidRequest
from octofold_proto.messages import LONGEST_SEARCH_US

from octofold_server.batching.call import Priority

TRACE_HEADERS = ("traceparent", "tracestate")
"""The metadata keys or HTTP headers of W3C Trace Context."""

Headers = Sequence[tuple[str, str | bytes]]
"""The metadata or headers of a call: names in lower case, and values."""


class Request(NamedTuple):
    """A decoded request. Its exponents, model, outputs and limits are not checked yet."""

    model: str  # empty: the default model
    version: str  # empty: the newest ready version
    boards: NDArray[Any] | str  # integers [N, 16], N at least 1; or an error message
    priority: Priority = Priority.INTERACTIVE
    timeout_seconds: float = math.inf  # from now on, in addition to the deadline of the transport
    outputs: Collection[str] | None = None  # in the order of the reply; None: all that the model has
    needs_outputs: bool = True  # whether a model that lacks one of `outputs` refuses the request
    search_seconds: float = math.inf  # for each board; infinity: the player's options decide


def search_seconds(search_time_us: int) -> float:
    """Convert microseconds of search per board to seconds. 0 becomes infinity: the player's options decide.

    Raises:
        InvalidRequest: the time is negative or longer than `LONGEST_SEARCH_US`.
    """
    if not 0 <= search_time_us <= LONGEST_SEARCH_US:
        raise InvalidRequest(
            f"search_time_us must be 0 to {LONGEST_SEARCH_US} microseconds, got {search_time_us}"
        )
    return search_time_us / 1e6 or math.inf
