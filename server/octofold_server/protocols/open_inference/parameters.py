"""What the parameters of an inference mean, by whichever transport they came."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from octofold_proto.errors import InvalidRequest

from octofold_server.admission.request import Request
from octofold_server.batching.call import Priority
from octofold_server.system.quoting import quoted

INPUT_REFUSED = ("shared_memory_region",)
OUTPUT_REFUSED = ("shared_memory_region", "classification")
"""Parameters of tensors that change what the caller gets, and that nothing here knows how to honour."""

LONGEST_TIMEOUT_US = 10**15  # thirty years; beyond, seconds of a clock lose their fractions

Parameter = bool | int | float | str | None
Parameters = Mapping[str, Parameter]
NO_PARAMETERS: Parameters = MappingProxyType({})

_PRIORITIES = {0: Priority.INTERACTIVE, 1: Priority.INTERACTIVE, 2: Priority.BULK}  # 0: the default


def with_parameters(request: Request, parameters: Parameters) -> Request:
    """The request with the priority and the timeout that its parameters ask for.

    Raises:
        InvalidRequest: one of them is not possible.
    """
    return request._replace(priority=_priority(parameters), timeout_seconds=_timeout_seconds(parameters))


def _priority(parameters: Parameters) -> Priority:
    """1 is interactive, 2 is bulk, 0 or none the default."""
    value = parameters.get("priority", 0)
    if type(value) is not int or value not in _PRIORITIES:
        raise InvalidRequest(f"parameter 'priority' is {_shown(value)}; it takes 1 (interactive) or 2 (bulk)")
    return _PRIORITIES[value]


def _timeout_seconds(parameters: Parameters) -> float:
    """The parameter is in microseconds; 0 or none means no timeout."""
    value = parameters.get("timeout", 0)
    if type(value) is not int or value < 0:
        raise InvalidRequest(f"parameter 'timeout' is {_shown(value)}; it takes microseconds, 0 or more")
    return min(value, LONGEST_TIMEOUT_US) / 1e6 if value else math.inf


def refuse_parameters(parameters: Parameters, refused: Sequence[str], where: str) -> None:
    """Refuse these parameters; others that nothing here knows do no harm.

    Raises:
        InvalidRequest: one of `refused` is among the parameters; names it.
    """
    for name in refused:
        if parameters.get(name):
            raise InvalidRequest(f"parameter {name!r} of {where} is not supported")


def _shown(value: Parameter) -> str:
    return quoted(value) if isinstance(value, str) else quoted(str(value))[1:-1]
