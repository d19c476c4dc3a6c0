"""Converts tensors of the Open Inference Protocol: inputs to boards, and answers to outputs.

It also checks the parameters of requests and tensors. gRPC and REST both use this module, so that they accept
and return the same tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from octofold_game.contract import graph
from octofold_proto.errors import InvalidRequest
from octofold_proto.messages import CELLS

from octofold_server.admission.admission import AcceptedCall
from octofold_server.admission.request import Request, search_seconds
from octofold_server.backends.backend import Moves
from octofold_server.batching.call import Priority
from octofold_server.system.quoting import quoted

LONGEST_TIMEOUT_US = 10**15  # thirty years; a larger number of microseconds would lose precision

_Count = Annotated[int, msgspec.Meta(ge=0)]


class RequestParameters(msgspec.Struct):
    """The parameters of a request. Other parameters are ignored, and null means the default."""

    priority: Annotated[int, msgspec.Meta(ge=0, le=2)] | None = None
    """The priority of the call: 0, 1 and null are interactive, 2 is bulk."""
    timeout: _Count | None = None
    """Timeout in microseconds; 0 means no limit."""
    search_time_us: int | None = None
    """Search time of a player per board in microseconds; 0 leaves the time to the player's options."""
    binary_data_output: bool | None = None
    """Whether REST returns the outputs as bytes."""


class TensorParameters(msgspec.Struct):
    """The parameters of an input or output. Other parameters are ignored, and null means the default."""

    binary_data: bool | None = None
    binary_data_size: _Count | None = None
    shared_memory_region: object = None
    classification: object = None

    def check(self, tensor: str) -> None:
        """Check that the tensor has no unsupported parameter that would change the result.

        Raises:
            InvalidRequest: a parameter is not supported; the message names the parameter and `tensor`.
        """
        for name in ("shared_memory_region", "classification"):
            if getattr(self, name) is not None:
                raise InvalidRequest(f"parameter {name!r} of {tensor} is not supported")


class TensorSpec(NamedTuple):
    """The name, the type and the shape of an input or output, without the batch dimension."""

    name: str
    datatype: str
    dtype: np.dtype[Any]  # type of the elements on the wire
    shape: tuple[int, ...]


_DATATYPES = {"uint8": "UINT8", "int8": "INT8", "int64": "INT64", "float32": "FP32", "bool": "BOOL"}


def _spec(tensor: graph.Tensor) -> TensorSpec:
    datatype, dtype = _DATATYPES[tensor.dtype.name], tensor.dtype.newbyteorder("<")
    return TensorSpec(tensor.name, datatype, dtype, tensor.shape)


BOARDS = _spec(graph.BOARDS)
OUTPUTS = {tensor.name: _spec(tensor) for tensor in (*graph.OUTPUTS, *graph.SEARCH_OUTPUTS, graph.VALUE)}
"""The outputs of all kinds of models, by name."""

_FIELDS = dict(zip(OUTPUTS, Moves._fields, strict=True))
"""The field of `Moves` for each output."""


class InputTensor(NamedTuple):
    """An input of a request, before any check."""

    name: str
    datatype: str
    shape: Sequence[int]
    contents: bytes | NDArray[np.integer[Any]]  # raw bytes, or integers [elements]


class OutputTensor(NamedTuple):
    """An output for N boards; `values` is `[N, *spec.shape]` with the type on the wire."""

    spec: TensorSpec
    values: NDArray[Any]


def boards_of(inputs: Sequence[InputTensor]) -> NDArray[Any] | str:
    """Return the boards [N, 16] in the inputs of a request, or an error message, as in `Request.boards`."""
    if len(inputs) != 1 or inputs[0].name != BOARDS.name:
        return _input_error([given.name for given in inputs])
    _, datatype, shape, contents = inputs[0]
    if datatype != BOARDS.datatype:
        return f"input 'boards' must have type UINT8, got {quoted(datatype)}"
    if len(shape) != 2 or shape[1] != CELLS or shape[0] < 1:
        return f"input 'boards' must have shape [N, 16] with at least one board, got {list(shape[:8])}"
    elements = shape[0] * CELLS
    if len(contents) != elements:
        what = "bytes" if isinstance(contents, bytes) else "elements"
        return f"input 'boards' of shape {list(shape)} must have {elements} {what}, got {len(contents)}"
    cells = np.frombuffer(contents, dtype=np.uint8) if isinstance(contents, bytes) else contents
    return cells.reshape(-1, CELLS)


def output_names(requested: Sequence[str]) -> Sequence[str]:
    """Return the names of the requested outputs; the model may lack some of them.

    Raises:
        InvalidRequest: an output is requested twice; the message names the output.
    """
    for position, name in enumerate(requested):
        if name in requested[:position]:
            raise InvalidRequest(f"output {quoted(name)} is requested twice")
    return requested


def outputs_of(call: AcceptedCall) -> list[OutputTensor]:
    """Return the requested outputs of an answered call."""
    names, moves = call.request.outputs, call.answer.moves
    return [
        OutputTensor(OUTPUTS[name], getattr(moves, _FIELDS[name]).astype(OUTPUTS[name].dtype, copy=False))
        for name in (call.served.output_names if names is None else names)
    ]


def _input_error(names: Sequence[str]) -> str:
    unknown = next((name for name in names if name != BOARDS.name), None)
    if unknown is not None:
        return f"unknown input {quoted(unknown)}; the only input is boards"
    return "input 'boards' is missing" if not names else "input 'boards' is given twice"


def with_parameters(request: Request, parameters: RequestParameters) -> Request:
    """Return a request with the priority, the timeout and the search time that the parameters give.

    Raises:
        InvalidRequest: the search time is not allowed.
    """
    return request._replace(
        priority=Priority.BULK if parameters.priority == 2 else Priority.INTERACTIVE,
        timeout_seconds=min(parameters.timeout or 0, LONGEST_TIMEOUT_US) / 1e6 or math.inf,
        search_seconds=search_seconds(parameters.search_time_us or 0),
    )
