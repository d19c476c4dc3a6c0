"""Servers that share an evaluation: each has one connection and lists its models once."""

from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import numpy as np
import pytest
from octofold_client import EvaluationError, Unavailable, evaluate
from octofold_client.errors import OtherEvaluation
from octofold_client.evaluation.result_folder import Conditions
from octofold_client.evaluation.server_connections import Connections
from octofold_client.ray.games import TaskGames, TaskPlayer, play_games
from octofold_client.rpc.credentials import PLAINTEXT
from octofold_game.contract.model import CARD_FORMAT, Card, GraphFile, encode_card, short_digest
from octofold_game.rules import legal_moves
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1 import inference_pb2_grpc
from support.replays import replays_of


class FirstLegal(inference_pb2_grpc.OctofoldServiceServicer):
    """A service whose model plays the first legal move. It records its callers and calls."""

    def __init__(self, sha256: str = "ab" * 32) -> None:
        self.listed = 0
        self.peers: set[str] = set()
        self.digest = short_digest(sha256)
        self.changes_after = 0
        """Number of answers after which the digest changes; 0 for never."""
        card = Card(
            format=CARD_FORMAT,
            name="one",
            version=1,
            largest_exponent=4,
            precisions={"fp32": GraphFile(file="model.onnx", sha256=sha256)},
        )
        self._version = pb.ModelVersion(
            version="1",
            state=pb.ModelVersion.STATE_READY,
            precision="fp32",
            card_json=encode_card(card).decode(),
        )

    def ListModels(  # noqa: N802 - gRPC's name
        self, _request: pb.ListModelsRequest, context: grpc.ServicerContext
    ) -> pb.ListModelsResponse:
        self.listed += 1
        self.peers.add(context.peer())
        names = ("one", "two")
        return pb.ListModelsResponse(
            models=[pb.Model(name=n, is_default=n == "one", versions=[self._version]) for n in names]
        )

    def NextMoves(  # noqa: N802 - gRPC's name
        self, request: pb.NextMovesRequest, context: grpc.ServicerContext
    ) -> pb.NextMovesResponse:
        self.peers.add(context.peer())
        boards = np.frombuffer(request.boards, np.uint8).reshape(-1, 16)
        moves = legal_moves(boards).argmax(axis=1).astype(np.int8)
        self.changes_after -= 1
        if self.changes_after == 0:
            self.digest += 1
        return pb.NextMovesResponse(
            moves=moves.tobytes(),
            model=request.model,
            version=request.version,
            precision="fp32",
            digest=self.digest,
        )


Served = tuple[str, FirstLegal]


@pytest.fixture
def two() -> Iterator[list[Served]]:
    """Two servers whose models have one name but different files, each with a record of its calls."""
    servers, served = [], []
    for digest in ("ab", "cd"):
        servicer = FirstLegal(digest * 32)
        server = grpc.server(futures.ThreadPoolExecutor(4))
        inference_pb2_grpc.add_OctofoldServiceServicer_to_server(servicer, server)
        served.append((f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", servicer))
        server.start()
        servers.append(server)
    yield served
    for server in servers:
        server.stop(None).wait()


def test_an_evaluation_opens_one_connection_and_asks_for_the_models_once(
    two: list[Served], tmp_path: Path
) -> None:
    target, servicer = two[0]
    assert evaluate(target, tmp_path, games=3, model="two").summary.games == 3
    assert servicer.listed == 1
    assert len(servicer.peers) == 1


@pytest.mark.parametrize("part", [None, (2, 3)])
def test_an_answer_from_another_model_file_ends_an_evaluation_which_continues_with_the_right_file(
    two: list[Served], tmp_path: Path, part: tuple[int, int] | None
) -> None:
    target, servicer = two[0]
    wanted = servicer.digest

    def play(folder: str) -> None:
        evaluate(target, tmp_path / folder, games=40, parallel=4, slice=part)

    play("whole")
    whole = replays_of(tmp_path / "whole")
    servicer.changes_after = 60
    why = f"different player answers now: .* fp32 \\(digest {wanted + 1:016x}\\), expected .*{wanted:016x}\\)"
    with pytest.raises(OtherEvaluation, match=why):
        play("out")
    before = replays_of(tmp_path / "out")
    assert before
    assert before.items() <= whole.items()
    with pytest.raises(OtherEvaluation):
        play("out")
    servicer.digest = wanted
    play("out")
    assert replays_of(tmp_path / "out") == whole


def test_a_cluster_task_ends_without_retries_if_another_model_file_answers(two: list[Served]) -> None:
    target, servicer = two[0]
    with Connections([target], PLAINTEXT) as servers:
        conditions = Conditions.of(servers.select("one"), 0)
    servicer.changes_after = 60
    games = TaskGames(TaskPlayer(model="one", version="1"), target, conditions, 4, range(40))
    with pytest.raises(OtherEvaluation, match="a different player answers now: "):
        list(play_games(games))


def test_servers_that_answer_with_different_files_are_not_mixed(two: list[Served]) -> None:
    targets = [target for target, _ in two]
    with Connections(targets, PLAINTEXT) as servers, pytest.raises(EvaluationError, match="different files"):
        servers.select()


def test_an_evaluation_waits_for_a_server_that_starts_late(
    two: list[Served], port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    inference_pb2_grpc.add_OctofoldServiceServicer_to_server(two[0][1], server)

    said = ""

    def start_once_waited_for() -> None:
        nonlocal said
        if not said and (said := capsys.readouterr().err):
            assert server.add_insecure_port(f"127.0.0.1:{port}")
            server.start()

    with Connections([f"127.0.0.1:{port}"], PLAINTEXT, start_once_waited_for, 60) as servers:
        assert servers.select().title == "one version 1"
    server.stop(None).wait()
    assert said.startswith("retrying for 60 s: ")


def test_a_missing_server_is_reported_and_the_loss_of_the_last_one_ends_the_evaluation(
    two: list[Served], capsys: pytest.CaptureFixture[str]
) -> None:
    with Connections(["127.0.0.1:1", two[0][0]], PLAINTEXT) as servers:
        assert len(servers.sources(servers.select())) == 1
    assert capsys.readouterr().err.startswith("continuing without 127.0.0.1:1: ")
    with pytest.raises(Unavailable), Connections(["127.0.0.1:1"], PLAINTEXT):
        pass
