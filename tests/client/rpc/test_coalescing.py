"""Concurrent requests for single boards share calls but not failures. The tests end the calls."""

import asyncio
from concurrent.futures import Future
from typing import Any

import grpc
import pytest
from octofold_client import DeadlinePassed, NextMove
from octofold_client.rpc.calls import Calls, Send, SendBoard
from octofold_client.rpc.coalescing import Coalescer, TaskRequest, ThreadRequest
from octofold_proto.octofold.v1 import inference_pb2 as pb

MINUTE = 60.0
HERE = "here:1"


class Failed(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code


REFUSED = Failed(grpc.StatusCode.INVALID_ARGUMENT)


class ManualCalls:
    """A sender of calls that only the test ends. The answer to a board is its first cell."""

    def __init__(self, servers: int = 1) -> None:
        self.begun: list[tuple[bytes, Future[Any]]] = []
        self.timeouts: list[float] = []
        self.coalescer = Coalescer(Calls(HERE), self, servers)

    def __call__(self, send: Send) -> Future[Any]:
        call: Future[Any] = Future()
        assert isinstance(send.request, pb.NextMovesRequest)
        self.begun.append((send.request.boards[::16], call))
        self.timeouts.append(send.timeout_seconds)
        return call

    def ask(self, *boards: int, seconds: float = MINUTE) -> list[ThreadRequest]:
        asked = [ThreadRequest(SendBoard(bytes([board] * 16), seconds), HERE) for board in boards]
        for one in asked:
            self.coalescer.submit(one)
        return asked

    def end(self, number: int, error: Exception | None = None) -> None:
        boards, call = self.begun[number]
        if error is not None:
            call.set_exception(error)
        else:
            n = len(boards)
            response = pb.NextMovesResponse(moves=boards, probabilities=bytes(16 * n), votes=bytes(4 * n))
            call.set_result(response)

    @property
    def calls(self) -> list[list[int]]:
        return [list(boards) for boards, _ in self.begun]


def moves(asked: list[ThreadRequest]) -> list[int]:
    return [one.result(0.0).move for one in asked]


def test_a_lone_board_is_sent_at_once_and_later_ones_wait_until_as_many_wait_as_are_in_flight() -> None:
    hand = ManualCalls()
    asked = hand.ask(1)
    assert hand.calls == [[1]]
    asked += hand.ask(2, 3, 4, 5, 6)
    assert hand.calls == [[1], [2], [3, 4]]
    hand.end(0)
    assert hand.calls == [[1], [2], [3, 4]]  # two boards wait, three are in calls
    hand.end(1)
    assert hand.calls == [[1], [2], [3, 4], [5, 6]]
    hand.end(3)
    hand.end(2)
    assert moves(asked) == [1, 2, 3, 4, 5, 6]


def test_a_refused_call_is_repeated_in_halves_until_the_bad_board_is_alone() -> None:
    hand = ManualCalls()
    asked = hand.ask(1, 2, 3, 4, 9, 5)
    hand.end(0)
    hand.end(1)
    hand.end(2)  # the remaining boards 9 and 5 share a call
    number = len(hand.begun) - 1
    assert hand.calls[number] == [9, 5]
    hand.end(number, REFUSED)
    assert hand.calls[-2:] == [[9], [5]]
    hand.end(number + 1, REFUSED)
    hand.end(number + 2)
    assert moves(asked[:4] + asked[5:]) == [1, 2, 3, 4, 5]
    with pytest.raises(Failed):
        asked[4].result(0.0)


def test_a_call_is_cancelled_when_its_last_waiter_has_left() -> None:
    hand = ManualCalls()
    asked = hand.ask(1, 2, 3, 4)
    _, call = hand.begun[2]
    asked[2].cancel()
    assert not call.cancelled()
    asked[3].cancel()
    assert call.cancelled()


def test_each_caller_keeps_its_own_deadline_and_the_call_has_the_latest() -> None:
    hand = ManualCalls()
    hand.ask(1, 2)
    (short,) = hand.ask(3, seconds=0.01)
    (long,) = hand.ask(4)
    with pytest.raises(DeadlinePassed, match="no answer from here:1 in time"):
        short.result(MINUTE)
    assert hand.calls[2] == [3, 4]
    assert 0.01 < hand.timeouts[2] <= MINUTE
    hand.end(2)
    assert long.result(0.0).move == 4


def test_ctrl_c_in_the_sending_thread_loses_no_board_of_other_threads() -> None:
    class Interrupted(ManualCalls):
        interrupt = False

        def __call__(self, send: Send) -> Future[Any]:
            if self.interrupt:
                self.interrupt = False
                raise KeyboardInterrupt
            return super().__call__(send)

    hand = Interrupted()
    asked = hand.ask(1, 2, 3)
    hand.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        hand.ask(4)
    assert hand.calls == [[1], [2], [3, 4]]
    hand.end(2)
    assert asked[2].result(0.0).move == 3


async def test_a_cancelled_task_leaves_and_the_others_get_their_answers() -> None:
    hand = ManualCalls()
    tasks = []
    for board in (1, 2, 3, 4):
        asked = TaskRequest(SendBoard(bytes([board] * 16), MINUTE), HERE)
        hand.coalescer.submit(asked)
        tasks.append(asyncio.create_task(asked.result()))
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.sleep(0)
    for number in range(3):
        hand.end(number)
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(answers[2], asyncio.CancelledError)
    assert [answer.move for answer in answers if isinstance(answer, NextMove)] == [1, 2, 4]


def test_with_several_servers_calls_are_smaller_so_that_each_server_gets_some() -> None:
    hand = ManualCalls(servers=2)
    hand.ask(*range(8))
    assert hand.calls == [[0], [1], [2], [3], [4], [5], [6, 7]]
