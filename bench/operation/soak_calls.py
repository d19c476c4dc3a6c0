"""The kinds of call that a soak makes, valid and invalid.

Each kind is a function that makes one call and returns the name of the call's final status. A wrong answer
raises `WrongAnswer`. Every call has a time limit.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import struct
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from numpy.typing import NDArray
from octofold_game.contract.graph import BOARDS, MOVE
from octofold_proto import messages
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub

CALL_SECONDS = 30.0
"""The deadline of every valid call."""
PATIENCE_SECONDS = 0.3
"""How long to wait for a reply to bytes that are not a call."""
CALLS_PER_CONNECTION = 40
MOST_BOARDS = 300
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # and empty SETTINGS
SPARE = "spare"
"""The model that is loaded and unloaded during the soak."""


class WrongAnswer(Exception):
    """An answer differs from the expected one."""


@dataclass(frozen=True)
class Target:
    """A server and the boards to send to it.

    Attributes:
        grpc: address of the gRPC port, HOST:PORT.
        rest_port: REST port on 127.0.0.1.
        model: name of the model to call.
        boards: `[N, 16] uint8`.
        moves: `[N] int8`, the expected answers.
    """

    grpc: str
    rest_port: int
    model: str
    boards: NDArray[np.uint8]
    moves: NDArray[np.int8]


class Caller:
    """A client for one thread; it reconnects every `CALLS_PER_CONNECTION` calls.

    Attributes:
        answered: number of answered calls for moves.
        perhaps: number of calls for moves that the server may have answered after the caller left.
    """

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self.random = random.Random(seed)
        self.answered = 0
        self.perhaps = 0
        self._calls = 0
        self._channel: grpc.Channel | None = None

    def connect(self) -> grpc.Channel:
        """A channel to the server, for one call."""
        self._calls += 1
        if self._calls % CALLS_PER_CONNECTION == 0:
            self.close()
        if self._channel is None:
            self._channel = new_channel(self.target)
        return self._channel

    def close(self) -> None:
        """End the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def some(self, most: int = MOST_BOARDS) -> NDArray[np.intp]:
        """Indexes `[n]` of random boards, with n from 1 to `most`."""
        count = self.random.randint(1, most)
        return np.array([self.random.randrange(len(self.target.boards)) for _ in range(count)])

    def packed(self, rows: NDArray[np.intp]) -> pb.NextMovesRequest:
        """The request for these boards."""
        boards = messages.BOARDS.write(self.target.boards[rows])
        return pb.NextMovesRequest(model=self.target.model, boards=boards)

    def check(self, rows: NDArray[np.intp], moves: Any) -> None:
        """Compare an answer with the expected one and count it.

        Raises:
            WrongAnswer: they differ.
        """
        if not np.array_equal(np.asarray(moves), self.target.moves[rows]):
            raise WrongAnswer(f"wrong moves for boards {rows.tolist()}: {np.asarray(moves).tolist()}")
        self.answered += 1


def new_channel(target: Target) -> grpc.Channel:
    """A channel with a connection of its own."""
    return grpc.insecure_channel(target.grpc, options=[("grpc.use_local_subchannel_pool", 1)])


def unary(caller: Caller) -> str:
    """A NextMove call."""
    rows = caller.some(1)
    request = pb.NextMoveRequest(model=caller.target.model, board=caller.target.boards[rows[0]].tolist())
    reply = OctofoldServiceStub(caller.connect()).NextMove(request, timeout=CALL_SECONDS)
    caller.check(rows, [messages.move_of_direction(reply.direction)])
    return "OK"


def packed(caller: Caller) -> str:
    """A NextMoves call."""
    rows = caller.some()
    reply = OctofoldServiceStub(caller.connect()).NextMoves(caller.packed(rows), timeout=CALL_SECONDS)
    caller.check(rows, messages.MOVES.read(reply.moves, len(rows)))
    return "OK"


def stream(caller: Caller) -> str:
    """A stream of several messages, one of them invalid. Answers may come in any order."""
    asked = {number: caller.some(20) for number in range(caller.random.randint(1, 8))}
    requests = [pb.StreamNextMovesRequest(id=n, request=caller.packed(rows)) for n, rows in asked.items()]
    bad = len(requests)
    requests.append(pb.StreamNextMovesRequest(id=bad, request=pb.NextMovesRequest(boards=b"bad")))
    caller.random.shuffle(requests)
    replies = OctofoldServiceStub(caller.connect()).StreamNextMoves(iter(requests), timeout=CALL_SECONDS)
    seen = set()
    for reply in replies:
        if reply.id in seen:
            raise WrongAnswer(f"the stream answered message {reply.id} twice")
        seen.add(reply.id)
        if reply.id == bad:
            if reply.WhichOneof("result") != "error":
                raise WrongAnswer("the stream answered an invalid message")
        elif reply.WhichOneof("result") == "error":
            raise WrongAnswer(f"the stream refused a valid message: {reply.error.message}")
        else:
            rows = asked[reply.id]
            caller.check(rows, messages.MOVES.read(reply.response.moves, len(rows)))
    if len(seen) != len(requests):
        raise WrongAnswer(f"the stream answered {len(seen)} of {len(requests)} messages")
    return "OK"


def open_inference(caller: Caller) -> str:
    """A ModelInfer call."""
    rows = caller.some()
    request = oip.ModelInferRequest(model_name=caller.target.model)
    request.inputs.add(name=BOARDS.name, datatype="UINT8", shape=[len(rows), 16])
    request.outputs.add(name=MOVE.name)
    request.raw_input_contents.append(messages.BOARDS.write(caller.target.boards[rows]))
    reply = GRPCInferenceServiceStub(caller.connect()).ModelInfer(request, timeout=CALL_SECONDS)
    caller.check(rows, np.frombuffer(reply.raw_output_contents[0], np.int8))
    return "OK"


def open_inference_stream(caller: Caller) -> str:
    """A ModelStreamInfer call of several messages."""
    asked = [caller.some(20) for _ in range(caller.random.randint(1, 4))]
    requests = []
    for number, rows in enumerate(asked):
        request = oip.ModelInferRequest(model_name=caller.target.model, id=str(number))
        request.inputs.add(name=BOARDS.name, datatype="UINT8", shape=[len(rows), 16])
        request.outputs.add(name=MOVE.name)
        request.raw_input_contents.append(messages.BOARDS.write(caller.target.boards[rows]))
        requests.append(request)
    replies = GRPCInferenceServiceStub(caller.connect()).ModelStreamInfer(
        iter(requests), timeout=CALL_SECONDS
    )
    seen = 0
    for reply in replies:
        if reply.error_message:
            raise WrongAnswer(f"the stream refused a valid message: {reply.error_message}")
        seen += 1
        contents = reply.infer_response.raw_output_contents[0]
        caller.check(asked[int(reply.infer_response.id)], np.frombuffer(contents, np.int8))
    if seen != len(asked):
        raise WrongAnswer(f"the stream answered {seen} of {len(asked)} messages")
    return "OK"


def rest(caller: Caller) -> str:
    """An inference request over REST, in JSON or with binary tensors."""
    rows = caller.some(50)
    boards = caller.target.boards[rows]
    tensor: dict[str, Any] = {"name": BOARDS.name, "datatype": "UINT8", "shape": list(boards.shape)}
    body: dict[str, Any] = {"inputs": [tensor], "outputs": [{"name": MOVE.name}]}
    headers = {}
    if caller.random.random() < 0.5:
        tensor["data"] = boards.tolist()
        content = json.dumps(body).encode()
    else:
        tensor["parameters"] = {"binary_data_size": boards.size}
        content = json.dumps(body).encode()
        headers["Inference-Header-Content-Length"] = str(len(content))
        content += boards.tobytes()
    status, reply = _http(caller.target, "POST", f"/v2/models/{caller.target.model}/infer", content, headers)
    if status == 200:
        caller.check(rows, json.loads(reply)["outputs"][0]["data"])
    return f"HTTP {status}"


def descriptions(caller: Caller) -> str:
    """A call about the server or its models."""
    channel = caller.connect()
    octofold, infer = OctofoldServiceStub(channel), GRPCInferenceServiceStub(channel)
    model = caller.target.model
    asks: list[Callable[[], object]] = [
        lambda: octofold.ListModels(pb.ListModelsRequest(), timeout=CALL_SECONDS),
        lambda: infer.ServerMetadata(oip.ServerMetadataRequest(), timeout=CALL_SECONDS),
        lambda: infer.ServerReady(oip.ServerReadyRequest(), timeout=CALL_SECONDS),
        lambda: infer.ModelMetadata(oip.ModelMetadataRequest(name=model), timeout=CALL_SECONDS),
        lambda: infer.ModelConfig(oip.ModelConfigRequest(name=model), timeout=CALL_SECONDS),
        lambda: infer.ModelStatistics(oip.ModelStatisticsRequest(), timeout=CALL_SECONDS),
        lambda: infer.RepositoryIndex(oip.RepositoryIndexRequest(), timeout=CALL_SECONDS),
        lambda: _health(channel).Check(health_pb2.HealthCheckRequest(), timeout=CALL_SECONDS),
    ]
    caller.random.choice(asks)()
    return "OK"


def rest_descriptions(caller: Caller) -> str:
    """A GET request about the server or its models."""
    model = f"/v2/models/{caller.target.model}"
    paths = ("/healthz", "/readyz", "/metrics", "/v2", model, "/v2/models/stats")
    status, _ = _http(caller.target, "GET", caller.random.choice(paths))
    return f"HTTP {status}"


def health_watch(caller: Caller) -> str:
    """A health watch that is read once and then canceled, as load balancers do."""
    watch = _health(caller.connect()).Watch(health_pb2.HealthCheckRequest(), timeout=CALL_SECONDS)
    next(iter(watch))
    watch.cancel()
    return "OK"


def _health(channel: grpc.Channel) -> Any:
    """The stub of the health service, whose published types leave out its methods."""
    return health_pb2_grpc.HealthStub(channel)


def canceled(caller: Caller) -> str:
    """A large call that is canceled after a moment."""
    rows = caller.some()
    call = OctofoldServiceStub(caller.connect()).NextMoves.future(caller.packed(rows), timeout=CALL_SECONDS)
    time.sleep(caller.random.random() * 0.01)
    call.cancel()
    caller.perhaps += 1
    return "OK" if call.done() and not call.cancelled() and call.exception() is None else "CANCELLED"


def abandoned_stream(caller: Caller) -> str:
    """A stream of four messages that is canceled after at most one answer."""
    requests = [
        pb.StreamNextMovesRequest(id=number, request=caller.packed(caller.some(20))) for number in range(4)
    ]
    replies = OctofoldServiceStub(caller.connect()).StreamNextMoves(iter(requests), timeout=CALL_SECONDS)
    if caller.random.random() < 0.5:
        next(iter(replies))
    replies.cancel()
    caller.perhaps += len(requests)
    return "CANCELLED"


def hasty(caller: Caller) -> str:
    """A call with a deadline so short that the server may miss it."""
    caller.perhaps += 1
    timeout = caller.random.random() * 0.02
    OctofoldServiceStub(caller.connect()).NextMoves(caller.packed(caller.some()), timeout=timeout)
    return "OK"


def malformed(caller: Caller) -> str:
    """A call with random bytes as its message, or of an unknown method."""
    methods = (
        "/octofold.v1.OctofoldService/NextMoves",
        "/octofold.v1.OctofoldService/ListModels",
        "/inference.GRPCInferenceService/ModelInfer",
        "/octofold.v1.OctofoldService/None",
    )
    ask: Callable[..., bytes] = caller.connect().unary_unary(caller.random.choice(methods))
    ask(b"\xff" + caller.random.randbytes(caller.random.randint(0, 500)), timeout=CALL_SECONDS)
    return "OK"


def junk(caller: Caller) -> str:
    """Random bytes instead of HTTP, on either port."""
    beginning = caller.random.choice((b"", HTTP2_PREFACE, b"POST /v2/models/x/infer HTTP/1.1\r\n"))
    with _connection(caller) as connection, suppress(OSError):
        connection.sendall(beginning + caller.random.randbytes(caller.random.randint(1, 4000)))
        connection.recv(1 << 16)
    return "cut"


def cut(caller: Caller) -> str:
    """A connection that is reset in the middle of a request."""
    time.sleep(caller.random.random() * 0.02)
    request = b"POST /v2/models/x/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
    with _connection(caller) as connection, suppress(OSError):
        connection.sendall(caller.random.choice((HTTP2_PREFACE, request)))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # send RST
    return "cut"


def cut_call(caller: Caller) -> str:
    """A connection that is closed during a call."""
    channel = new_channel(caller.target)
    call = OctofoldServiceStub(channel).NextMoves.future(
        caller.packed(caller.some()), timeout=CALL_SECONDS, wait_for_ready=True
    )
    time.sleep(caller.random.random() * 0.02)
    channel.close()
    caller.perhaps += 1
    return "OK" if not call.cancelled() and call.exception() is None else "CANCELLED"


def spare(caller: Caller) -> str:
    """A call for the model that is loaded and unloaded."""
    request = pb.NextMoveRequest(model=SPARE, board=caller.target.boards[0].tolist())
    OctofoldServiceStub(caller.connect()).NextMove(request, timeout=CALL_SECONDS)
    return "OK"


@dataclass(frozen=True)
class Kind:
    """A kind of call, and the final statuses that are allowed for it."""

    call: Callable[[Caller], str]
    allowed: frozenset[str] = frozenset({"OK"})

    @property
    def name(self) -> str:
        """The name in the table."""
        return self.call.__name__.replace("_", " ")


def _kind(call: Callable[[Caller], str], *allowed: str) -> Kind:
    return Kind(call, frozenset(allowed)) if allowed else Kind(call)


KINDS = (
    _kind(unary),
    _kind(packed),
    _kind(stream),
    _kind(open_inference),
    _kind(open_inference_stream),
    _kind(rest, "HTTP 200"),
    _kind(descriptions),
    _kind(rest_descriptions, "HTTP 200"),
    _kind(health_watch),
    _kind(canceled, "OK", "CANCELLED"),
    _kind(abandoned_stream, "CANCELLED"),
    _kind(hasty, "OK", "DEADLINE_EXCEEDED"),
    _kind(malformed, "INVALID_ARGUMENT", "INTERNAL", "UNIMPLEMENTED"),
    _kind(junk, "cut"),
    _kind(cut, "cut"),
    _kind(cut_call, "OK", "CANCELLED"),
    _kind(spare, "OK", "NOT_FOUND", "UNAVAILABLE"),
)


def _http(
    target: Target, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", target.rest_port, timeout=CALL_SECONDS)
    with closing(connection):
        connection.request(method, path, body, headers or {})
        reply = connection.getresponse()
        return reply.status, reply.read()


def _connection(caller: Caller) -> socket.socket:
    grpc_port = int(caller.target.grpc.rpartition(":")[2])
    port = caller.random.choice((grpc_port, caller.target.rest_port))
    connection = socket.create_connection(("127.0.0.1", port), timeout=CALL_SECONDS)
    connection.settimeout(PATIENCE_SECONDS)
    return connection
