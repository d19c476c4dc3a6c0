"""A network and players behind one server: equal answers by every protocol, whatever happens."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client import Client, evaluate
from octofold_game.episodes import Episodes
from octofold_game.rules import legal_moves
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.commands import octofold
from support.processes import open_calls
from support.servers import Ask, ServerProcess, Start, server_starter
from support.storms import storm
from support.three_models import FLAGS, MODELS, ThreeModels, write_again, write_three_models
from support.waiting import wait_for

every_model = pytest.mark.parametrize("model", MODELS)
MANY = 60_000
"""Boards that keep every model busy until a caller has left."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> ThreeModels:
    return write_three_models(tmp_path_factory.mktemp("three"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, three: ThreeModels) -> Iterator[ServerProcess]:
    with server_starter(tmp_path_factory.mktemp("server"), three.folder) as start:
        yield start(*FLAGS, "--default-model", "swift", rest=True)


@pytest.fixture(scope="module")
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.target) as channel:
        yield channel


@pytest.fixture(scope="module")
def stub(channel: grpc.Channel) -> OctofoldServiceStub:
    return OctofoldServiceStub(channel)


@pytest.fixture(scope="module")
def boards() -> NDArray[np.uint8]:
    """Boards of games, one of them over."""
    episodes, seen = Episodes(0, range(2)), []
    for move in range(40):
        seen.append(episodes.boards.copy())
        episodes.step(np.full(len(episodes.boards), move % 4, np.int8))
    over = np.resize(np.array([1, 2, 1, 2, 2, 1, 2, 1], np.uint8), (1, 16))
    return np.concatenate([over, *seen])


def packed(channel: grpc.Channel, model: str, boards: NDArray[np.uint8], **fields: Any) -> list[int]:
    request = pb.NextMovesRequest(model=model, boards=boards.tobytes(), **fields)
    return list(np.frombuffer(OctofoldServiceStub(channel).NextMoves(request).moves, np.int8).tolist())


def asked(model: str, count: int = 64) -> pb.NextMovesRequest:
    episodes, seen = Episodes(0, range(16)), list[np.ndarray]()
    for _ in range(20):
        seen.append(episodes.boards.copy())
        episodes.step(legal_moves(episodes.boards).argmax(axis=1).astype(np.int8))
    return pb.NextMovesRequest(model=model, boards=np.resize(np.concatenate(seen), (count, 16)).tobytes())


def moves(stub: OctofoldServiceStub, model: str) -> bytes:
    answer = stub.NextMoves(asked(model))
    assert answer.model == model
    return bytes(answer.moves)


def test_players_make_the_moves_that_they_make_in_this_process(
    channel: grpc.Channel, boards: NDArray[np.uint8], three: ThreeModels
) -> None:
    for model, player in three.players.items():
        assert packed(channel, model, boards) == [-1, *player.next_moves(boards[1:]).tolist()]


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
            assert (len(one.probabilities), len(one.votes), one.values, many.depth) == (4, 4, None, None)
            return
        assert (len(one.probabilities), len(one.votes), many.probabilities) == (0, 0, None)
        assert one.values is not None
        assert many.values is not None
        assert one.values.argmax() == one.move
        np.testing.assert_array_equal(many.values[5], one.values)
        deeper = client.next_move(
            boards[5], search_seconds=2
        )  # far more than it takes, so that others may run
        assert deeper.depth is not None
        assert one.depth is not None
        assert deeper.depth >= one.depth


@every_model
def test_a_deadline_ends_a_call_and_not_the_next_one(
    model: str, server: ServerProcess, stub: OctofoldServiceStub
) -> None:
    expected = moves(stub, model)
    with pytest.raises(grpc.RpcError) as caught:
        stub.NextMoves(asked(model, MANY), timeout=0.01)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_for(lambda: open_calls(server) == 0)
    assert moves(stub, model) == expected


@every_model
def test_a_canceled_call_makes_room(model: str, server: ServerProcess, stub: OctofoldServiceStub) -> None:
    def has_begun(call: Any) -> bool:
        return open_calls(server) == 1 or call.done()

    expected = moves(stub, model)
    for _ in range(3):
        leaving = stub.NextMoves.future(asked(model, MANY))
        wait_for(partial(has_begun, leaving))
        if not leaving.cancel():
            leaving.result()  # it was answered before it was seen
        wait_for(lambda: open_calls(server) == 0)
    assert moves(stub, model) == expected


def test_killed_clients_leave_no_calls_behind_and_a_drain_answers_what_was_accepted(
    three: ThreeModels, start_server: Start, tmp_path: Path
) -> None:
    server = start_server(*FLAGS, "--models", str(three.folder), "--default-model", "perimeter", rest=True)
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        expected = moves(stub, "perimeter")
        storm(server.target, tmp_path)
        wait_for(lambda: open_calls(server) == 0)
        assert moves(stub, "perimeter") == expected
        running = stub.NextMoves.future(asked("perimeter", 4096))
        wait_for(lambda: open_calls(server) == 1 or running.done())
        assert server.terminate() == 0
        assert len(running.result().moves) == 4096


def test_a_new_version_of_a_player_takes_over_between_two_calls(tmp_path: Path, start_server: Start) -> None:
    three = write_three_models(tmp_path)
    server = start_server(*FLAGS, "--default-model", "perimeter")
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        first = stub.NextMoves(asked(""))
        write_again(three.folder, "perimeter", 2, three.players)
        server.process.send_signal(signal.SIGHUP)
        answers = [first]
        while answers[-1].version == "1":
            answers.append(stub.NextMoves(asked("")))
        assert {answer.moves for answer in answers} == {first.moves}
        assert answers[-1].version == "2"


def test_a_load_test_measures_a_player(server: ServerProcess, tmp_path: Path) -> None:
    measured = ["--ramp", "50ms", "--window", "150ms", "--windows", "3", "--concurrency", "2"]
    asked = ["--target", server.target, "--model", "expectimax", *measured, "--form", "packed:4"]
    done = octofold("loadtest", *asked, "--out", "out", folder=tmp_path)
    assert done.returncode == 0, done
    result = json.loads((tmp_path / "out" / "loadtest.json").read_text())
    (step,) = result["steps"]
    assert (result["model"], result["finished"], step["errors"]) == ("expectimax", True, {})
    assert step["calls"] > 0


def test_an_evaluation_plays_the_games_of_the_player(
    server: ServerProcess, three: ThreeModels, tmp_path: Path
) -> None:
    served = evaluate(server.target, tmp_path / "served", model="expectimax", games=1, seed=1)
    same = evaluate(three.players["expectimax"], tmp_path / "local", games=1, seed=1)
    assert [game.score for game in served.games] == [game.score for game in same.games]


@every_model
def test_the_page_shows_what_it_answers(model: str, server: ServerProcess, ask: Ask) -> None:
    shown = ask(server, "GET", f"/page/views?model={model}&board=1120000000000000").json
    assert (shown["model"], shown["version"]) == (model, "1")
    if model == "swift":
        assert len(shown["probabilities"]) == 4
        assert len(shown["views"]) == 8
    else:
        assert (shown["views"], shown["probabilities"]) == (None, None)
        assert (len(shown["values"]), shown["value_unit"], shown["depth"]) == (4, "heuristic points", 2)
