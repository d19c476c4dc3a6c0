"""An inference request of the Open Inference Protocol, by whichever transport it came, and what its
parameters mean.

Knows the parameters of the protocol, and not how messages or bodies write them down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from octofold_proto.errors import InvalidRequest

from octofold_server.batching.call import Priority
from octofold_server.protocols.open_inference.tensors import InputTensor
from octofold_server.system.quoting import quoted

__all__ = [
    "INPUT_REFUSED",
    "OUTPUT_REFUSED",
    "InferenceRequest",
    "Parameter",
    "Parameters",
    "priority_of",
    "refuse_parameters",
    "timeout_of",
]

INPUT_REFUSED = ("shared_memory_region",)
OUTPUT_REFUSED = ("shared_memory_region", "classification")
"""Parameters of tensors that change what the caller gets, and that nothing here knows how to honour."""

LONGEST_TIMEOUT_US = 10**15  # thirty years; beyond, seconds of a clock lose their fractions

Parameter = bool | int | float | str | None
Parameters = Mapping[str, Parameter]

_PRIORITIES = {0: Priority.INTERACTIVE, 1: Priority.INTERACTIVE, 2: Priority.BULK}  # 0: the default


class InferenceRequest(NamedTuple):
    """What a caller asks for. Its inputs have not been checked; everything else has."""

    model: str
    version: str
    id: str
    inputs: Sequence[InputTensor]
    outputs: Sequence[str]  # names, each known and once
    priority: Priority
    timeout_seconds: float  # from now; infinite where the caller names none


def priority_of(parameters: Parameters) -> Priority:
    """What the parameter `priority` asks for: 1 is interactive, 2 is bulk, 0 or none the default.

    Raises:
        InvalidRequest: it is anything else.
    """
    value = parameters.get("priority", 0)
    if type(value) is not int or value not in _PRIORITIES:
        raise InvalidRequest(f"parameter 'priority' is {_shown(value)}; it takes 1 (interactive) or 2 (bulk)")
    return _PRIORITIES[value]


def timeout_of(parameters: Parameters) -> float:
    """The seconds that the parameter `timeout`, in microseconds, allows; infinite for 0 or none.

    Raises:
        InvalidRequest: it is not a number of microseconds.
    """
    value = parameters.get("timeout", 0)
    if type(value) is not int or value < 0:
        raise InvalidRequest(f"parameter 'timeout' is {_shown(value)}; it takes microseconds, 0 or more")
    return min(value, LONGEST_TIMEOUT_US) / 1e6 if value else float("inf")


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
