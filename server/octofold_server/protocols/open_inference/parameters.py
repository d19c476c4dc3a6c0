"""The parameters of an inference request, for both transports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from octofold_proto.errors import InvalidRequest

from octofold_server.admission.request import Request, search_seconds
from octofold_server.batching.call import Priority
from octofold_server.system.quoting import quoted

INPUT_REFUSED = ("shared_memory_region",)
OUTPUT_REFUSED = ("shared_memory_region", "classification")
"""Unsupported parameters of tensors that would change the result. Other unknown parameters are ignored."""

LONGEST_TIMEOUT_US = 10**15  # thirty years; larger times lose precision

Parameter = bool | int | float | str | None
Parameters = Mapping[str, Parameter]
NO_PARAMETERS: Parameters = MappingProxyType({})

_PRIORITIES = {0: Priority.INTERACTIVE, 1: Priority.INTERACTIVE, 2: Priority.BULK}  # 0: the default


def with_parameters(request: Request, parameters: Parameters) -> Request:
    """Set the priority, the timeout and the time of a search of a request from its parameters.

    A parameter that is null counts as left out.

    Raises:
        InvalidRequest: a parameter has an invalid value.
    """
    parameters = {name: value for name, value in parameters.items() if value is not None}
    return request._replace(
        priority=_priority(parameters),
        timeout_seconds=_timeout_seconds(parameters),
        search_seconds=_search_seconds(parameters),
    )


def _search_seconds(parameters: Parameters) -> float:
    value = parameters.get("search_time_us", 0)
    if type(value) is not int:
        raise InvalidRequest(f"parameter 'search_time_us' is {_quote(value)}; it takes microseconds")
    return search_seconds(value)


def _priority(parameters: Parameters) -> Priority:
    """The priority: 1 is interactive, 2 is bulk, 0 or none is the default."""
    value = parameters.get("priority", 0)
    if type(value) is not int or value not in _PRIORITIES:
        raise InvalidRequest(f"parameter 'priority' is {_quote(value)}; it takes 1 (interactive) or 2 (bulk)")
    return _PRIORITIES[value]


def _timeout_seconds(parameters: Parameters) -> float:
    """The timeout in seconds. The parameter is in microseconds; 0 or none means no timeout."""
    value = parameters.get("timeout", 0)
    if type(value) is not int or value < 0:
        raise InvalidRequest(f"parameter 'timeout' is {_quote(value)}; it takes microseconds, 0 or more")
    return min(value, LONGEST_TIMEOUT_US) / 1e6 if value else math.inf


def refuse_parameters(parameters: Parameters, refused: Sequence[str], where: str) -> None:
    """Check that unsupported parameters are absent.

    Args:
        parameters: the parameters.
        refused: names of the unsupported ones.
        where: the owner of the parameters, for the error.

    Raises:
        InvalidRequest: the parameters contain an unsupported one; the message names it.
    """
    for name in refused:
        if parameters.get(name):
            raise InvalidRequest(f"parameter {name!r} of {where} is not supported")


def _quote(value: Parameter) -> str:
    return quoted(value) if isinstance(value, str) else quoted(str(value))[1:-1]
