"""A player behind every protocol: equal answers, limits of a search, and options of a call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from octofold_game.rules import legal_moves
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.messages import DIRECTIONS
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.player_versions import PROGRAM, TABLE, expected_moves, write_player
from support.processes import open_calls
from support.served import infer_request, packed
from support.servers import Ask, ServerProcess, Start, server_starter, write_model
from support.waiting import wait_for

BOARDS = np.random.default_rng(3).integers(0, 3, (5, 16), dtype=np.uint8)
BOARDS[4] = np.resize([1, 2, 1, 2, 2, 1, 2, 1], 16)  # over
MOVES = expected_moves(BOARDS)
LEGAL = legal_moves(BOARDS)
VALUES = np.where(LEGAL, np.frombuffer(TABLE, np.uint8).astype(np.float32), -np.inf)
OUTPUTS = ["move", "legal", "values", "depth", "positions"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, graph: bytes) -> Iterator[ServerProcess]:
    """A server of a network and of players: `player`, `slow`, which never ends by itself, and `mute`, which
    does not value moves."""
    folder = tmp_path_factory.mktemp("players")
    models = folder / "models"
    write_model(models, graph, "network")
    write_player(models, "player", depth=2)
    write_player(models, "slow", seconds=-1)
    write_player(models, "mute", values=False)
    with server_starter(folder, models) as start:
        yield start("--players", "fake", "--default-model", "player", rest=True, program=(str(PROGRAM),))


@pytest.mark.parametrize(
    ("model", "output", "there"),
    [
        ("player", "votes", ", ".join(OUTPUTS)),
        ("mute", "values", "move, legal, depth, positions"),
        ("network", "depth", "move, probabilities, votes, legal"),
    ],
)
def test_an_output_that_a_model_lacks_is_named(
    channel: grpc.Channel, model: str, output: str, there: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        GRPCInferenceServiceStub(channel).ModelInfer(infer_request(model, BOARDS, "move", output))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == f"unknown output '{output}'; the model has {there}"


def test_search_time_makes_a_search_deeper(server: ServerProcess, channel: grpc.Channel, ask: Ask) -> None:
    stub = OctofoldServiceStub(channel)
    one = stub.NextMove(pb.NextMoveRequest(board=BOARDS[0].tolist(), search_time_us=10_000))
    assert one.depth == 7
    many = stub.NextMoves(packed(BOARDS[:2], search_time_us=10_000, with_search=True))
    assert list(many.depth) == [7, 7]
    answer = GRPCInferenceServiceStub(channel).ModelInfer(
        infer_request("player", BOARDS[:1], "depth", search_time_us=10_000)
    )
    assert answer.raw_output_contents[0] == b"\x07"
    board = "".join(map(str, BOARDS[0]))
    page = ask(server, "GET", f"/page/views?board={board}").json
    assert (page["views"], page["probabilities"]) == (None, None)
    assert (page["value_unit"], page["values"]) == (
        "points",
        [None if value == -np.inf else value for value in VALUES[0].tolist()],
    )


def test_finished_boards_are_answered_at_once_whatever_the_search_time(
    channel: grpc.Channel,
) -> None:
    def batches() -> int:
        asked = oip.ModelStatisticsRequest(name="player")
        (one,) = GRPCInferenceServiceStub(channel).ModelStatistics(asked).model_stats
        return int(one.execution_count)

    before = batches()
    over = np.tile(BOARDS[4], (1000, 1))
    answer = OctofoldServiceStub(channel).NextMoves(packed(over, search_time_us=60_000_000), timeout=100)
    assert answer.moves == b"\xff" * len(over)
    assert batches() == before + 1


@pytest.mark.parametrize("time_us", [60_000_001, 2**32 - 1])
def test_an_invalid_search_time_is_refused(channel: grpc.Channel, time_us: int) -> None:
    with pytest.raises(grpc.RpcError, match=f"must be 0 to 60000000 microseconds, got {time_us}"):
        OctofoldServiceStub(channel).NextMoves(packed(BOARDS, search_time_us=time_us))


def test_a_deadline_ends_a_search_with_the_deepest_finished_move(channel: grpc.Channel) -> None:
    asked = pb.NextMoveRequest(model="slow", board=BOARDS[0].tolist())
    for seconds in (3, 10, 30):  # a tenth of the deadline must suffice for all but the search
        try:
            answer = OctofoldServiceStub(channel).NextMove(asked, timeout=seconds)
            break
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED or seconds == 30:
                raise
    assert answer.direction == DIRECTIONS[MOVES[0]]


def test_a_cancelled_search_makes_room_for_the_next(server: ServerProcess, channel: grpc.Channel) -> None:
    stub = OctofoldServiceStub(channel)
    for _ in range(5):  # more searches than lanes; none ends by itself
        leaving = stub.NextMove.future(pb.NextMoveRequest(model="slow", board=BOARDS[0].tolist()))
        wait_for(lambda: open_calls(server) == 1)
        leaving.cancel()
        wait_for(lambda: open_calls(server) == 0)
    again = pb.NextMoveRequest(model="slow", board=BOARDS[0].tolist(), search_time_us=10_000)
    assert stub.NextMove(again).depth == 7


def test_models_can_be_loaded_and_unloaded_during_a_search_of_an_unloaded_one(
    server: ServerProcess, channel: grpc.Channel, ask: Ask
) -> None:
    endless = pb.NextMoveRequest(model="slow", board=BOARDS[0].tolist())
    running = [OctofoldServiceStub(channel).NextMove.future(endless) for _ in range(5)]
    wait_for(lambda: open_calls(server) == 5)
    for model in ("slow", "mute"):
        assert ask(server, "POST", f"/v2/repository/models/{model}/unload").status == 200
        GRPCInferenceServiceStub(channel).RepositoryModelLoad(
            oip.RepositoryModelLoadRequest(model_name=model)
        )
    assert not any(call.done() for call in running)
    for call in running:
        call.cancel()
    wait_for(lambda: open_calls(server) == 0)


def test_a_running_search_is_answered_while_the_server_drains(tmp_path: Path, start_server: Start) -> None:
    write_player(tmp_path / "models")
    server = start_server("--players", "fake", "--processes", "2", program=(str(PROGRAM),), rest=True)
    with grpc.insecure_channel(server.target) as channel:
        question = pb.NextMoveRequest(board=BOARDS[0].tolist(), search_time_us=400_000)
        running = OctofoldServiceStub(channel).NextMove.future(question)
        wait_for(lambda: open_calls(server) == 1 or running.done())
        assert server.terminate() == 0
        assert running.result().depth == 50
