"""Streams of messages about boards over gRPC.

Each message is handled like a call, and replies may come in another order than the messages. The reply to a
message that fails is its error, and the stream continues; only a message that cannot be decoded ends it. A
stream has no thread of its own: messages arrive on gRPC's thread, and answers on the batcher's threads.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message
from google.rpc.code_pb2 import UNAVAILABLE
from octofold_game.errors import OctofoldError
from octofold_proto.errors import InvalidRequest, Unavailable

from octofold_server.admission.admission import AcceptedCall, Admission, code_name
from octofold_server.admission.byte_budget import ByteBudget
from octofold_server.grpc_transport.interface import Rpc
from octofold_server.grpc_transport.methods import Begin
from octofold_server.grpc_transport.unary import Codec, decode, fail, request_id_of

MAX_OPEN_BOARDS = 65_536
"""Maximum boards in the unanswered messages of one stream. At the maximum, the server stops reading, so
a client that never reads its replies cannot fill the memory."""

MIN_BOARDS = 32
"""Minimum boards that a message counts as, because even an empty message takes memory."""

CLOSING_SECONDS = 3.0
"""Time limit for a client to read the next reply while the server shuts down."""

AnyMessage = TypeVar("AnyMessage", bound=Message)


class StreamCodec(Codec[AnyMessage], Protocol[AnyMessage]):
    """A codec for the messages of a stream."""

    def reply(self, message: AnyMessage, call: AcceptedCall, /) -> bytes:
        """Return the reply to a message whose call was answered."""
        ...

    def refusal(self, message: AnyMessage, error: Exception, stream_id: str, /) -> bytes:
        """Return the reply to a message whose call failed; `stream_id` is the request id of the stream."""
        ...


def answer_streams(admission: Admission, codec: StreamCodec[Any]) -> Begin:
    """Make the callback that begins the streams of a method.

    Args:
        admission: admits every message, and ends idle streams.
        codec: the codec of the method.
    """

    def begin(rpc: Rpc) -> None:
        try:
            AnswerStream(admission, codec, rpc)
        except Exception as error:
            fail(rpc, error, codec.name)

    return begin


class _Open:
    """A message that was read, and whose reply is not sent yet.

    It keeps only the data that is still needed, because a client decides how long replies wait.
    """

    __slots__ = ("boards", "call", "held_bytes", "reply")

    def __init__(self, size: int) -> None:
        self.boards = max(MIN_BOARDS, size // 16)  # other content of the message counts as boards
        self.call: AcceptedCall | None = None  # None again once there is a reply
        self.held_bytes = 0  # bytes reserved in the budget
        self.reply = b""


class AnswerStream(Generic[AnyMessage]):
    """Submits the messages of one stream, and sends the replies.

    Args:
        admission: admits every message.
        codec: the codec of the messages.
        rpc: the call; the stream ends it.

    Raises:
        Unavailable, QueueFull: as in `Admission.open_stream`.
    """

    def __init__(self, admission: Admission, codec: StreamCodec[AnyMessage], rpc: Rpc) -> None:
        self._admission = admission
        self._codec = codec
        self._rpc = rpc
        self._request_id = request_id_of(rpc.metadata)
        self._open: set[_Open] = set()
        self._open_boards = 0
        self._ready: deque[_Open] = deque()  # answered and waiting to be sent
        self._sending: _Open | None = None
        self._reading = False
        self._stopped = False  # takes no more messages
        self._why: Exception | None = None  # the reason for the end, once all open messages are answered
        self._ended = False  # sends no more
        self._busy = time.monotonic()  # when a reply was last sent, or the first one became ready
        self._lock = threading.Lock()  # guards everything above
        with self._lock:  # `stop_reading` may end the stream at once, which needs the token
            self._token = admission.open_stream(rpc.peer(), self.stop_reading, self.end_if_idle)
        rpc.on_message = self._take
        rpc.on_sent = self._was_sent
        rpc.on_left = self._abandon
        self._reading = True
        rpc.read()

    def stop_reading(self) -> None:
        """Stop reading messages, and end the stream when the submitted messages are answered.

        The status is UNAVAILABLE, because OK would mean that the server had read every message.
        """
        self._stop(Unavailable(self._admission.refusal))

    def _abandon(self, _: object) -> None:
        """Cancel all open calls and end the stream, because the client has left."""
        with self._lock:
            self._stopped = True
            calls = [opened.call for opened in self._open]
            self._ready.clear()
        self._end(CancelledError())
        for call in calls:
            if call is not None:
                call.cancel()

    def end_if_idle(self, idle_seconds: float) -> None:
        """End the stream if it was idle, or if the client read no reply, for this many seconds.

        While the server shuts down, a client has at most `CLOSING_SECONDS` to read a reply.
        """
        with self._lock:
            silent_seconds = time.monotonic() - self._busy
            is_idle = not self._open and silent_seconds >= idle_seconds
            self._stopped |= is_idle  # the stream accepts no later message
            is_closing = bool(self._admission.refusal)
            is_unread = self._sending is not None and silent_seconds >= (
                min(idle_seconds, CLOSING_SECONDS) if is_closing else idle_seconds
            )
        if is_idle:
            self._end_idle(f"the stream was idle for {idle_seconds:g} seconds; open a new one")
        elif is_unread:
            self._end_idle(f"the client read no reply of this stream for {silent_seconds:.1f} seconds")

    def _end_idle(self, message: str) -> None:
        error = Unavailable(message)
        self._admission.refusals.add(code_name(error))
        if self._sending is not None:  # a status could not be sent before the pending reply
            self._rpc.cut_off(UNAVAILABLE, message)
        else:
            self._end(error)

    def _take(self, received: bytes | None) -> None:
        why: Exception | None = None
        message: AnyMessage | None = None
        opened: _Open | None = None
        if received is not None:
            try:
                message = decode(self._codec.kind, received, self._codec.name, self._admission)
                opened = _Open(len(received))
            except OctofoldError as error:
                why = error
        with self._lock:
            self._reading = False
            if self._stopped:
                return
            if opened is not None:
                self._open.add(opened)
                self._open_boards += opened.boards
                read = self._may_read()
        if opened is None or message is None or received is None:
            self._stop(why)
            return
        if read:
            self._rpc.read()  # first, so that gRPC looks for the next message while this one is submitted
        self._submit(opened, message, len(received))

    def _submit(self, opened: _Open, message: AnyMessage, size: int) -> None:
        admission, rpc = self._admission, self._rpc
        try:
            if size >= ByteBudget.COUNTED_FROM:
                admission.budget.take(size, rpc.peer())
                opened.held_bytes = size
            try:
                request = self._codec.request(message)
            except InvalidRequest as error:
                admission.refusals.add(code_name(error))
                raise
            opened.call = admission.submit(
                request, self._answer, rpc.deadline, rpc.metadata, context=(opened, message)
            )
            if opened.reply:  # a lane has answered already
                opened.call = None
        except Exception as error:
            self._refuse(opened, message, error)

    def _answer(self, calls: Sequence[AcceptedCall]) -> None:
        for call in calls:
            opened, message = call.context
            if call.error is not None:
                self._refuse(opened, message, call.error)
                continue
            try:
                self._send(opened, self._codec.reply(message, call))
            except Exception as error:
                self._refuse(opened, message, error)

    def _refuse(self, opened: _Open, message: AnyMessage, why: Exception) -> None:
        try:
            self._send(opened, self._codec.refusal(message, why, self._request_id))
        except Exception as error:  # the client would wait for this answer forever
            self._end(error)

    def _send(self, opened: _Open, reply: bytes) -> None:
        opened.reply, opened.call = reply, None
        with self._lock:
            ended = self._ended
            if not ended:
                self._ready.append(opened)
                if self._sending is not None:
                    return
                self._busy = time.monotonic()
                self._sending = self._ready.popleft()
        if ended:
            self._give_back(opened)  # its bytes may have been reserved after the end
        else:
            self._rpc.send(reply)

    def _was_sent(self) -> None:
        with self._lock:
            sent = self._sending
            assert sent is not None
            self._open.discard(sent)
            self._open_boards -= sent.boards
            self._busy = time.monotonic()
            ended = self._ended
            self._sending = self._ready.popleft() if self._ready and not ended else None
            sending, is_over, read = self._sending, self._is_over(), self._may_read()
        self._give_back(sent)
        # Send without the lock, because lanes may have other answers for this stream.
        if sending is not None:
            self._rpc.send(sending.reply)
        if ended:
            self._close()
        elif is_over:
            self._end(self._why)
        elif read:
            self._rpc.read()

    def _stop(self, why: Exception | None) -> None:
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            self._why = why
            is_over = self._is_over()
        if is_over:
            self._end(why)

    def _end(self, why: Exception | None) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = self._stopped = True
            self._why = why
            is_sending = self._sending is not None  # gRPC must finish the pending send first
        if not is_sending:
            self._close()

    def _close(self) -> None:
        self._admission.close_stream(self._token)
        with self._lock:
            left = list(self._open)
        for opened in left:
            self._give_back(opened)
        if self._why is None:
            self._rpc.end()
        else:
            fail(self._rpc, self._why, self._codec.name, self._request_id)

    def _give_back(self, opened: _Open) -> None:
        if not opened.held_bytes:
            return
        with self._lock:  # a lane and the end of the stream may both call this
            held_bytes, opened.held_bytes = opened.held_bytes, 0
        self._admission.budget.give(held_bytes, self._rpc.peer())

    # Callers of the following methods hold the lock.

    def _is_over(self) -> bool:
        return self._stopped and not self._open

    def _may_read(self) -> bool:
        """Return whether the caller must request the next message now."""
        read = not (self._stopped or self._reading) and self._open_boards < MAX_OPEN_BOARDS
        self._reading |= read
        return read
