"""Calls as conversations: what to send, how long to wait and when to retry.

The sync and the asyncio client share this module. A conversation is a generator that yields `Send`,
`SendBoard` and `Wait`; the client sends it the reply or throws the `grpc.RpcError`. The conversation does no
input or output itself, so tests can run it without a server.
"""

import math
import re
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, TypeVar

import grpc
import numpy as np
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from numpy.typing import ArrayLike, NDArray
from octofold_game.contract.model import Card, CardError, parse_card
from octofold_game.rules import LARGEST_EXPONENT, check_boards
from octofold_proto import messages
from octofold_proto.inference import grpc_service_pb2
from octofold_proto.octofold.v1 import inference_pb2 as pb

from octofold_client.errors import (
    BrokenAnswer,
    DeadlinePassed,
    InvalidRequest,
    NotOctofold,
    OctofoldError,
    Unavailable,
    error_of_call,
)
from octofold_client.rpc.answers import Model, ModelVersion, NextMove, NextMoves
from octofold_client.rpc.connection_errors import explain
from octofold_client.rpc.retry import DEFAULT_RETRY, RetryPolicy
from octofold_client.rpc.targets import addresses_of

T = TypeVar("T")

_NO_PROBABILITIES, _NO_VOTES = np.zeros(0, np.float32), np.zeros(0, np.uint8)

_TOO_LARGE = re.compile(r"message larger than max \((?P<size>\d+) vs\. (?P<most>\d+)\)")
"""gRPC's message about a request that is too large for the server."""
_LONGEST_TIMEOUT_SECONDS = 1e9
"""Longest timeout passed to gRPC, which adds it to the current time and counts nanoseconds in 63 bits. The
sum overflows above about 7e9 seconds."""


@dataclass(frozen=True)
class Send:
    """A step: call `method` with `request`. The reply is the response message."""

    method: str
    request: Message
    timeout_seconds: float


@dataclass(frozen=True)
class SendBoard:
    """A step: get the move for one board, perhaps in one call with boards of other callers.

    The reply is the board's `NextMove`.
    """

    board: bytes
    """The board: 16 exponents, one byte each."""
    timeout_seconds: float
    model: str = ""
    version: str = ""
    with_value: bool = False


@dataclass(frozen=True)
class Wait:
    """A step: wait for `seconds`. There is no reply."""

    seconds: float


Action = Send | SendBoard | Wait
Conversation = Generator[Action, Any, T]


@dataclass(frozen=True)
class Calls:
    """Makes the conversations of one client.

    Raises:
        InvalidRequest: the target is malformed, or the timeout is not a number.
    """

    target: str
    """Addresses of the servers, in the form that `targets.py` describes."""
    model: str = ""
    """Name of the model; empty for the server's default model."""
    version: str = ""
    """Version of the model; empty for the newest ready version."""
    timeout_seconds: float = 60.0
    """Timeout of a call, including its retries; infinity for none."""
    retry: RetryPolicy = DEFAULT_RETRY
    tls: bool = False
    """Whether the connection uses TLS; used only in error messages."""

    def __post_init__(self) -> None:
        addresses_of(self.target)
        if math.isnan(self.timeout_seconds):
            raise InvalidRequest(f"timeout_seconds must be a number, got {self.timeout_seconds}")

    def override(
        self,
        *,
        model: str | None = None,
        version: str | int | None = None,
        timeout_seconds: float | None = None,
        retry: RetryPolicy | None = None,
    ) -> "Calls":
        """Return a copy with another model, version, timeout or retry policy; None changes nothing.

        `model` may include a version, such as "swift:1". Without one, it means the newest ready version.
        """
        changes: dict[str, Any] = {"timeout_seconds": timeout_seconds, "retry": retry}
        if model is not None:
            changes["model"], _, changes["version"] = model.partition(":")
        if version is not None:
            changes["version"] = str(version)
        changes = {name: value for name, value in changes.items() if value is not None}
        return replace(self, **changes) if changes else self

    def next_move(
        self, board: ArrayLike, search_seconds: float | None = None, with_value: bool = False
    ) -> Conversation[NextMove]:
        """Ask for the move on a board of exponents, `[16]` or `[4, 4]`.

        Raises:
            BoardError: the board is invalid; nothing is sent.
            InvalidRequest: `search_seconds` is out of range.
        """
        cells = _bytes_of_board(board)
        if search_seconds is not None:
            request = self._of_boards([cells], with_value)
            request.search_time_us = _search_time_us(search_seconds)
            return self._ask_for("NextMoves", request, lambda response: answers_of(response, 1)[0])
        return self._with_retries(
            lambda seconds: SendBoard(cells, seconds, self.model, self.version, with_value),
            lambda answer: answer,
        )

    def of_boards(self, boards: Sequence[bytes], timeout_seconds: float, with_value: bool = False) -> Send:
        """Make one request for the boards of many `SendBoard` steps; `answers_of` splits the response."""
        return Send("NextMoves", self._of_boards(boards, with_value), timeout_seconds)

    def _of_boards(self, boards: Sequence[bytes], with_value: bool) -> pb.NextMovesRequest:
        return pb.NextMovesRequest(
            model=self.model,
            version=self.version,
            boards=b"".join(boards),
            with_probabilities=True,
            with_votes=True,
            with_search=True,
            with_value=with_value,
        )

    def next_moves(
        self,
        boards: ArrayLike,
        with_probabilities: bool,
        search_seconds: float | None = None,
        with_value: bool = False,
    ) -> Conversation[NextMoves]:
        """Ask for the moves on boards of exponents, `[N, 16]` or `[N, 4, 4]`.

        Raises:
            BoardError: a board is invalid; nothing is sent.
            InvalidRequest: `search_seconds` is out of range.
        """
        packed = _bytes_of_boards(boards)
        n = len(packed) // messages.CELLS
        request = pb.NextMovesRequest(
            model=self.model,
            version=self.version,
            boards=packed,
            with_probabilities=with_probabilities,
            with_search=with_probabilities,
            with_value=with_value,
            search_time_us=0 if search_seconds is None else _search_time_us(search_seconds),
        )
        return self._ask_for(
            "NextMoves", request, lambda response: _parse_next_moves(response, n, with_probabilities)
        )

    def list_models(self) -> Conversation[tuple[Model, ...]]:
        """Ask for all models in the server's repository."""
        return self._ask_for("ListModels", pb.ListModelsRequest(), _parse_models)

    def server_version(self) -> Conversation[str | None]:
        """Ask for the version of the server's program; None if it does not report one."""
        request = grpc_service_pb2.ServerMetadataRequest()
        try:
            return (
                yield from self._ask_for("ServerMetadata", request, lambda response: response.version or None)
            )
        except NotOctofold:
            return None

    def wait_until_ready(self, timeout_seconds: float) -> Conversation[None]:
        """Ask for the server's health until the server reports SERVING.

        Raises:
            Unavailable: the server did not report SERVING within `timeout_seconds`.
            NotOctofold: a gRPC server without health checks answered.
        """
        end = time.monotonic() + timeout_seconds
        last = "no answer"
        while (left := end - time.monotonic()) > 0:
            try:
                response = yield Send("Check", health_pb2.HealthCheckRequest(), min(left, 5.0))
            except grpc.RpcError as rpc_error:
                error = self._error(rpc_error)
                if isinstance(error, NotOctofold):
                    raise error from None
                if not isinstance(error, DeadlinePassed):  # an earlier error says more than a timeout
                    last = str(error)
            else:
                if response.status == health_pb2.HealthCheckResponse.SERVING:
                    return
                last = "the server is starting or draining"
            yield Wait(min(0.05, max(0.0, end - time.monotonic())))
        raise Unavailable(f"no Octofold server is ready at {self.target} after {timeout_seconds:g} s: {last}")

    def _ask_for(self, method: str, request: Message, parse: Callable[[Any], T]) -> Conversation[T]:
        return self._with_retries(lambda seconds: Send(method, request, seconds), parse)

    def _with_retries(self, step: Callable[[float], Action], parse: Callable[[Any], T]) -> Conversation[T]:
        """Send a request until an attempt succeeds or the retry policy gives up; return the parsed response.

        `step` returns the step of one attempt, given the timeout in seconds.
        """
        end = time.monotonic() + self.timeout_seconds
        attempt = 1
        while True:
            try:
                response = yield step(min(max(0.0, end - time.monotonic()), _LONGEST_TIMEOUT_SECONDS))
            except grpc.RpcError as rpc_error:
                error = self._error(rpc_error)
                wait = self.retry.wait_seconds(error, attempt)
                if wait is None or time.monotonic() + wait >= end:
                    raise error from None
            else:
                return parse(response)
            yield Wait(wait)
            attempt += 1

    def _error(self, rpc_error: grpc.RpcError) -> OctofoldError:
        """Return the exception for an error of gRPC, with the server's address if the message lacks it."""
        error = error_of_call(rpc_error)
        if (found := _TOO_LARGE.search(str(error))) is not None:
            size, most = int(found["size"]), int(found["most"])
            return InvalidRequest(
                f"a call of {size:,} bytes is too large for {self.target}, which takes at most {most:,}: "
                "send fewer boards in a call"
            )
        if (reason := explain(str(error), self.target, tls=self.tls)) is not None:
            return Unavailable(reason)
        if isinstance(error, DeadlinePassed):
            return DeadlinePassed(f"no answer from {self.target} in time: {error}")
        if isinstance(error, Unavailable | NotOctofold):
            error.args = (f"{self.target}: {error}",)
        return error


def _bytes_of_board(board: ArrayLike) -> bytes:
    """Return the 16 bytes of one board, `[16]` or `[4, 4]`."""
    array = np.asarray(board)
    if array.shape == (4, 4):
        array = array.reshape(16)
    if array.dtype == np.uint8 and array.shape == (16,):
        # The usual case. Checking the bytes is much faster than numpy's check.
        cells = array.tobytes()
        if max(cells) <= LARGEST_EXPONENT:
            return cells
    return check_boards(array[None]).tobytes()


def _bytes_of_boards(boards: ArrayLike) -> bytes:
    """Return the bytes of boards, `[N, 16]` or `[N, 4, 4]`: 16 bytes for each board."""
    if not (
        type(boards) is np.ndarray  # subclasses, such as masked arrays, need numpy's check
        and boards.dtype == np.uint8
        and boards.shape[1:] == (messages.CELLS,)
        and boards.max(initial=0) <= LARGEST_EXPONENT
    ):
        boards = check_boards(boards)
    return boards.tobytes()


def checked(conversation: Conversation[T], check: Callable[[T], T]) -> Conversation[T]:
    """Run the conversation, and pass its answer through `check`."""
    return check((yield from conversation))


def answers_of(response: pb.NextMovesResponse, n: int) -> list[NextMove]:
    """Return the answers to the `n` boards of a request by `Calls.of_boards`.

    Raises:
        BrokenAnswer: the response does not match the boards.
    """
    many = _parse_next_moves(response, n, with_probabilities=True)
    try:
        votes = repeat(_NO_VOTES) if many.depth is not None else messages.VOTES.read(response.votes, n)
    except ValueError as error:
        raise _broken_answer(error) from None
    probabilities = repeat(_NO_PROBABILITIES) if many.probabilities is None else many.probabilities
    value = repeat(None) if many.value is None else many.value.tolist()
    shared = (many.model, many.version, many.queue_us, many.inference_us)
    return [
        NextMove(move, shares, row, *shared, *searched, worth, many.precision, many.digest)
        for move, shares, row, searched, worth in zip(
            many.moves.tolist(), probabilities, votes, _search_fields(many), value, strict=False
        )
    ]


def _search_fields(many: NextMoves) -> Iterable[tuple[NDArray[np.float32] | None, int | None, int | None]]:
    """Return values, depth and positions of each board; for a network, endless `(None, None, None)`."""
    if many.depth is None or many.positions is None:
        return repeat((None, None, None))
    values = repeat(None) if many.values is None else many.values
    return zip(values, many.depth.tolist(), many.positions.tolist(), strict=False)


def _parse_next_moves(response: pb.NextMovesResponse, n: int, with_probabilities: bool) -> NextMoves:
    """Parse the response for `n` boards, with the probabilities of a network if `with_probabilities`."""
    probabilities = values = depth = positions = value = None
    try:
        moves = messages.MOVES.read(response.moves, n)
        if response.depth:
            depth = messages.DEPTH.read(response.depth, n)
            positions = messages.POSITIONS.read(response.positions, n)
            if response.values:
                values = messages.VALUES.read(response.values, n)
        elif with_probabilities:
            probabilities = messages.PROBABILITIES.read(response.probabilities, n)
        if response.value:
            value = messages.VALUE.read(response.value, n)
    except ValueError as error:
        raise _broken_answer(error) from None
    return NextMoves(
        moves=moves,
        probabilities=probabilities,
        model=response.model,
        version=response.version,
        queue_us=response.queue_us,
        inference_us=response.inference_us,
        values=values,
        depth=depth,
        positions=positions,
        value=value,
        precision=response.precision,
        digest=response.digest,
    )


def _search_time_us(seconds: float) -> int:
    time_us = round(seconds * 1e6) if math.isfinite(seconds) else 0
    if not 0 < time_us <= messages.LONGEST_SEARCH_US:
        longest = messages.LONGEST_SEARCH_US // 10**6
        raise InvalidRequest(f"search_seconds must be above 0 and at most {longest}, got {seconds:g}")
    return time_us


def _broken_answer(error: ValueError) -> BrokenAnswer:
    return BrokenAnswer(f"the server's answer does not match the request: {error}")


def _parse_models(response: pb.ListModelsResponse) -> tuple[Model, ...]:
    return tuple(
        Model(
            name=model.name,
            is_default=model.is_default,
            versions=tuple(
                ModelVersion(
                    version=version.version,
                    state=_parse_state(version.state),
                    reason=version.reason,
                    precision=version.precision,
                    card=_parse_card(version.card_json),
                )
                for version in model.versions
            ),
        )
        for model in response.models
    )


def _parse_state(number: int) -> str:
    states = pb.ModelVersion.State
    if number not in states.values():  # a newer server may have more states
        number = pb.ModelVersion.STATE_UNSPECIFIED
    return states.Name(number).removeprefix("STATE_").lower()


def _parse_card(card_json: str) -> Card | None:
    try:
        return parse_card(card_json)
    except CardError:  # an empty text means that the server could not read the card
        return None
