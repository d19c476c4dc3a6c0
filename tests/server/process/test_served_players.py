"""A network and players behind one server: equal answers by every protocol."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client import Client
from octofold_game.episodes import Episodes
from octofold_game.player import Player
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.forked_servers import ServerForks
from support.servers import ServerProcess, server_starter
from support.three_models import FLAGS, MODELS, ThreeModels, write_three_models

every_model = pytest.mark.parametrize("model", MODELS)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> ThreeModels:
    return write_three_models(tmp_path_factory.mktemp("three"))


@pytest.fixture(scope="module")
def players(three: ThreeModels) -> dict[str, Player]:
    """The players, in this process."""
    return three.players


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, server_forks: ServerForks, three: ThreeModels
) -> Iterator[ServerProcess]:
    with server_starter(tmp_path_factory.mktemp("server"), server_forks, three.folder) as start:
        yield start(*FLAGS, "--default-model", "swift", rest=True)


@pytest.fixture(scope="module")
def boards() -> NDArray[np.uint8]:
    """Boards of games, one of them over."""
    episodes, seen = Episodes(0, range(2)), []
    for move in range(40):
        seen.append(episodes.boards.copy())
        episodes.step(np.full(len(episodes.boards), move % 4, np.int8))
    over = np.resize(np.array([1, 2, 1, 2, 2, 1, 2, 1], np.uint8), (1, 16))
    return np.concatenate([over, *seen])


@pytest.fixture(scope="module")
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.target) as channel:
        yield channel


def packed(channel: grpc.Channel, model: str, boards: NDArray[np.uint8], **fields: Any) -> list[int]:
    request = pb.NextMovesRequest(model=model, boards=boards.tobytes(), **fields)
    return list(np.frombuffer(OctofoldServiceStub(channel).NextMoves(request).moves, np.int8).tolist())


@every_model
def test_every_protocol_gives_the_moves_that_the_player_makes_in_this_process(
    model: str,
    server: ServerProcess,
    channel: grpc.Channel,
    boards: NDArray[np.uint8],
    players: dict[str, Player],
) -> None:
    moves = packed(channel, model, boards)
    if model in players:
        assert moves == [-1, *players[model].next_moves(boards[1:]).tolist()]
    octofold = OctofoldServiceStub(channel)
    singly = [octofold.NextMove(pb.NextMoveRequest(model=model, board=board.tolist())) for board in boards]
    assert [
        (4 if answer.game_over else answer.direction - 1) % 5 - 5 * answer.game_over for answer in singly
    ] == moves
    messages = [
        pb.StreamNextMovesRequest(id=n, request=pb.NextMovesRequest(model=model, boards=board.tobytes()))
        for n, board in enumerate(boards)
    ]
    streamed = {answer.id: answer.response.moves for answer in octofold.StreamNextMoves(iter(messages))}
    assert [np.frombuffer(streamed[n], np.int8)[0] for n in range(len(boards))] == moves
    asked = oip.ModelInferRequest(
        model_name=model,
        inputs=[{"name": "boards", "datatype": "UINT8", "shape": boards.shape}],
        outputs=[{"name": "move"}],
        raw_input_contents=[boards.tobytes()],
    )
    (inferred,) = GRPCInferenceServiceStub(channel).ModelInfer(asked).raw_output_contents
    assert np.frombuffer(inferred, np.int8).tolist() == moves
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port)
    tensor = {"name": "boards", "datatype": "UINT8", "shape": boards.shape, "data": boards.ravel().tolist()}
    connection.request("POST", f"/v2/models/{model}/infer", json.dumps({"inputs": [tensor]}))
    outputs = {output["name"]: output["data"] for output in json.load(connection.getresponse())["outputs"]}
    connection.close()
    assert outputs["move"] == moves


@every_model
def test_whatever_else_runs_changes_no_answer(
    model: str, channel: grpc.Channel, boards: NDArray[np.uint8]
) -> None:
    moves = packed(channel, model, boards)
    with ThreadPoolExecutor(6) as pool:
        others = [pool.submit(packed, channel, model, boards[n:], search_time_us=1) for n in (1, 2, 3)]
        others += [pool.submit(packed, channel, other, boards) for other in MODELS]
        assert [packed(channel, model, boards[::-1])[::-1] for _ in range(3)] == [moves] * 3
        for other in others:
            other.exception()  # one microsecond may be too short for a move


@every_model
def test_the_client_shows_what_each_kind_of_model_answers(
    model: str, server: ServerProcess, boards: NDArray[np.uint8]
) -> None:
    with Client(server.target, model=model) as client:
        one, many = client.next_move(boards[5]), client.next_moves(boards)
        if model == "swift":
            assert (len(one.probabilities), len(one.votes), one.values, many.depth) == (
                4,
                8 and 4,
                None,
                None,
            )
            return
        assert (len(one.probabilities), len(one.votes), many.probabilities) == (0, 0, None)
        assert one.values is not None
        assert many.values is not None
        assert one.values.argmax() == one.move
        np.testing.assert_array_equal(many.values[5], one.values)
        deeper = client.next_move(boards[5], search_seconds=0.05)
        assert deeper.depth is not None
        assert one.depth is not None
        assert deeper.depth >= one.depth
