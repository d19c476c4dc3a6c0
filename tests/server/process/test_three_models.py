"""What happens to servers and callers happens to networks and players alike."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from octofold_client import evaluate
from octofold_game.episodes import Episodes
from octofold_game.rules import legal_moves
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.commands import octofold
from support.forked_servers import ServerForks
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
def server(
    tmp_path_factory: pytest.TempPathFactory, server_forks: ServerForks, three: ThreeModels
) -> Iterator[ServerProcess]:
    with server_starter(tmp_path_factory.mktemp("server"), server_forks, three.folder) as start:
        yield start(*FLAGS, "--default-model", "swift", rest=True)


@pytest.fixture(scope="module")
def stub(server: ServerProcess) -> Iterator[OctofoldServiceStub]:
    with grpc.insecure_channel(server.target) as channel:
        yield OctofoldServiceStub(channel)


def asked(model: str, count: int = 64) -> pb.NextMovesRequest:
    episodes, seen = Episodes(0, range(16)), list[np.ndarray]()
    for _ in range(20):
        seen.append(episodes.boards.copy())
        episodes.step(legal_moves(episodes.boards).argmax(axis=1).astype(np.int8))
    return pb.NextMovesRequest(model=model, boards=np.resize(np.concatenate(seen), (count, 16)).tobytes())


def open_calls(server: ServerProcess) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.rest_port}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    return int(next(line for line in lines if line.startswith("octofold_open_calls ")).split()[1])


def moves(stub: OctofoldServiceStub, model: str) -> bytes:
    answer = stub.NextMoves(asked(model))
    assert answer.model == model
    return bytes(answer.moves)


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
    expected = moves(stub, model)
    for _ in range(3):
        leaving = stub.NextMoves.future(asked(model, MANY))
        wait_for(lambda: open_calls(server) == 1)
        leaving.cancel()
        wait_for(lambda: open_calls(server) == 0)
    assert moves(stub, model) == expected


@every_model
def test_killed_clients_leave_no_calls_behind(
    model: str, three: ThreeModels, start_server: Start, server_forks: ServerForks, tmp_path: Path
) -> None:
    server = start_server(*FLAGS, "--models", str(three.folder), "--default-model", model, rest=True)
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        expected = moves(stub, model)
        storm(server.target, server_forks, tmp_path)
        wait_for(lambda: open_calls(server) == 0)
        assert moves(stub, model) == expected
    assert server.terminate() == 0


@every_model
def test_a_drain_answers_what_was_accepted(model: str, three: ThreeModels, start_server: Start) -> None:
    server = start_server(*FLAGS, "--models", str(three.folder), "--default-model", model, rest=True)
    with grpc.insecure_channel(server.target) as channel:
        running = OctofoldServiceStub(channel).NextMoves.future(asked(model, 4096))
        wait_for(lambda: open_calls(server) == 1 or running.done())
        assert server.terminate() == 0
        assert len(running.result().moves) == 4096


@every_model
def test_a_new_version_takes_over_between_two_calls(model: str, tmp_path: Path, start_server: Start) -> None:
    three = write_three_models(tmp_path)
    server = start_server(*FLAGS, "--default-model", model)
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        first = stub.NextMoves(asked(""))
        write_again(three.folder, model, 2, three.players)
        server.process.send_signal(signal.SIGHUP)
        answers = [first]
        while answers[-1].version == "1":
            answers.append(stub.NextMoves(asked("")))
        assert {answer.moves for answer in answers} == {first.moves}
        assert answers[-1].version == "2"


@every_model
def test_a_load_test_measures_it(model: str, server: ServerProcess, tmp_path: Path) -> None:
    quick = (
        "--ramp",
        "50ms",
        "--window",
        "150ms",
        "--windows",
        "3",
        "--concurrency",
        "2",
        "--form",
        "packed:4",
    )
    done = octofold(
        "loadtest", "--target", server.target, "--model", model, *quick, "--out", "out", folder=tmp_path
    )
    assert done.returncode == 0, done
    result = json.loads((tmp_path / "out" / "loadtest.json").read_text())
    (step,) = result["steps"]
    assert (result["model"], result["finished"], step["errors"]) == (model, True, {})
    assert step["calls"] > 0


@every_model
def test_an_evaluation_plays_the_games_of_the_player(
    model: str, server: ServerProcess, three: ThreeModels, tmp_path: Path
) -> None:
    served = evaluate(server.target, tmp_path / "served", model=model, games=1, seed=1)
    player = three.players.get(model)
    same = evaluate(
        player or server.target, tmp_path / "local", model="" if player else model, games=1, seed=1
    )
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
