"""What a server process reports and finishes when it is loading, draining or told to stop."""

from __future__ import annotations

import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.backends.fakes import fake_moves
from support.grpc_calls import health_stub
from support.served import NOT_SERVING, SERVICES, SERVING, ask, ask_until_refused, boards_of, versions
from support.servers import Gate, Start, WriteVersion


def test_health_says_serving_once_ready_and_not_serving_while_draining(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--grace", "60")
    with grpc.insecure_channel(server.target) as channel:
        health = health_stub(channel)
        for service in SERVICES:
            assert health.Check(health_pb2.HealthCheckRequest(service=service)).status == SERVING
        with pytest.raises(grpc.RpcError) as failure:
            health.Check(health_pb2.HealthCheckRequest(service="nobody"))
        assert failure.value.code() == grpc.StatusCode.NOT_FOUND

        watch = health.Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == SERVING
        server.process.send_signal(signal.SIGTERM)
        assert next(watch).status == NOT_SERVING
        boards = boards_of(10)  # the grace period: still serving
        np.testing.assert_array_equal(ask(OctofoldServiceStub(channel), boards), fake_moves(boards).moves)
        assert server.terminate() == 0  # a second signal ends it at once


def test_a_server_that_is_loading_is_alive_but_not_ready(
    write_version: WriteVersion, start_server: Start, gate: Gate, another_graph: bytes
) -> None:
    write_version()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    held = write_version(version=2, model=another_graph)
    gate.hold(held)
    server = start_server("--port", str(port), ready=False, program=gate.program)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        request = pb.NextMovesRequest(boards=bytes(16))
        stub, health = OctofoldServiceStub(channel), health_stub(channel)
        status = health.Check(health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=60).status
        assert status == NOT_SERVING
        with pytest.raises(grpc.RpcError, match="starting") as failure:
            stub.NextMoves(request)
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
        assert versions(stub)["tiny", "2"].state == pb.ModelVersion.STATE_LOADING
        assert not server.port_file.exists()
        gate.release(held)
        server.wait_until_ready()
        assert health.Check(health_pb2.HealthCheckRequest()).status == SERVING
        stub.NextMoves(request)


def test_sigterm_while_loading_ends_the_server_before_it_serves(
    write_version: WriteVersion, start_server: Start, gate: Gate
) -> None:
    held = write_version()
    gate.hold(held)
    server = start_server(ready=False, program=gate.program)
    gate.wait_until_reached(held)
    assert server.terminate() == 0
    assert "serving on" not in server.log
    assert "Traceback" not in server.log


@pytest.mark.parametrize("asked_by", ["signal", "RPC"])
def test_sigterm_during_a_reload_ends_the_server_without_waiting_for_it(
    write_version: WriteVersion, start_server: Start, gate: Gate, another_graph: bytes, asked_by: str
) -> None:
    write_version()
    server = start_server(program=gate.program)
    held = write_version(version=2, model=another_graph)
    gate.hold(held)
    with grpc.insecure_channel(server.target) as channel:
        if asked_by == "signal":
            server.process.send_signal(signal.SIGHUP)
        else:
            request = oip.RepositoryModelLoadRequest(model_name="tiny")
            call = GRPCInferenceServiceStub(channel).RepositoryModelLoad.future(request)
        gate.wait_until_reached(held)
        assert server.terminate() == 0
        if asked_by == "RPC":
            assert call.exception() is not None


def test_a_model_that_is_loading_is_not_serving_and_one_that_is_unloaded_ends_the_whole(
    write_version: WriteVersion, start_server: Start, gate: Gate, another_graph: bytes
) -> None:
    write_version()
    server = start_server(program=gate.program)
    held = write_version("another", model=another_graph)
    gate.hold(held)
    with grpc.insecure_channel(server.target) as channel:
        health, admin = health_stub(channel), GRPCInferenceServiceStub(channel)

        def statuses(*names: str) -> list[int]:
            return [health.Check(health_pb2.HealthCheckRequest(service=name)).status for name in names]

        server.process.send_signal(signal.SIGHUP)
        gate.wait_until_reached(held)
        assert statuses("tiny", "another", "") == [SERVING, NOT_SERVING, SERVING]
        gate.release(held)
        for name in ("tiny", "another"):
            assert admin.ServerReady(oip.ServerReadyRequest()).ready
            admin.RepositoryModelUnload(oip.RepositoryModelUnloadRequest(model_name=name))
        assert statuses("tiny", "another", "", SERVICES[0]) == [NOT_SERVING] * 4
        assert not admin.ServerReady(oip.ServerReadyRequest()).ready
        admin.RepositoryModelLoad(oip.RepositoryModelLoadRequest(model_name="tiny"))
        assert statuses("tiny", "another", "") == [SERVING, NOT_SERVING, SERVING]


def test_calls_that_outlast_the_drain_are_given_up_and_the_log_says_how_many(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    slow_server = str(Path(__file__).parents[1] / "slow_server.py")
    server = start_server("--drain", "0.3", program=(slow_server, "0.02"))
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        assert len(stub.NextMoves(pb.NextMovesRequest(boards=bytes(16))).moves) == 1
        call = stub.NextMoves.future(pb.NextMovesRequest(boards=bytes(16 * 3000)))
        admin = GRPCInferenceServiceStub(channel)
        while (
            admin.ModelStatistics(oip.ModelStatisticsRequest(name="tiny")).model_stats[0].execution_count < 2
        ):
            time.sleep(0.02)
        stopping = time.monotonic()
        assert server.terminate() == 0
        assert time.monotonic() - stopping < 15
        assert call.exception() is not None
    assert re.search(
        r"canceled 1 calls and streams after 0\.3 seconds of draining; 2\d{3} boards", server.log
    )


def test_sigterm_under_load_answers_every_accepted_call_and_exits_with_zero(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--grace", "0.3")
    boards = boards_of(3000)
    expected = fake_moves(boards).moves
    outcomes: list[object] = []
    answered = threading.Semaphore(0)

    def call_until_refused(start: int) -> None:
        with grpc.insecure_channel(server.target) as channel:
            stub = OctofoldServiceStub(channel)
            while True:
                try:
                    moves = ask(stub, boards[start:])
                except grpc.RpcError as error:
                    outcomes.append(error.code())
                    return
                outcomes.append(np.array_equal(moves, expected[start:]))
                answered.release()

    callers = [threading.Thread(target=call_until_refused, args=(2999 * (n % 2),)) for n in range(6)]
    for caller in callers:
        caller.start()
    for _ in range(12):
        answered.acquire()
    assert server.terminate() == 0
    for caller in callers:
        caller.join()
    assert set(outcomes) == {True, grpc.StatusCode.UNAVAILABLE}
    assert not server.port_file.exists()


def test_sigterm_ends_an_idle_stream_with_unavailable(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server()
    with grpc.insecure_channel(server.target) as channel:
        done = threading.Event()

        def messages() -> Iterator[pb.StreamNextMovesRequest]:
            yield pb.StreamNextMovesRequest(id=1, request=pb.NextMovesRequest(boards=bytes(16)))
            done.wait()

        stream = OctofoldServiceStub(channel).StreamNextMoves(messages())
        assert next(stream).id == 1
        assert server.terminate() == 0
        with pytest.raises(grpc.RpcError) as failure:
            next(stream)
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
        done.set()


def test_a_stream_that_was_read_to_its_end_before_sigterm_ends_well(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server()
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        large = pb.NextMovesRequest(boards=bytes(16 * 60_000), with_probabilities=True)
        stream = stub.StreamNextMoves(
            iter(
                [
                    pb.StreamNextMovesRequest(id=1, request=large),  # its answer waits for us to read it
                    pb.StreamNextMovesRequest(id=2, request=pb.NextMovesRequest(boards=bytes(16))),
                ]
            )
        )
        assert next(stream).id == 2
        for _ in range(20):  # these calls come to the server after the end of the stream
            stub.NextMoves(pb.NextMovesRequest(boards=bytes(16)), timeout=30)
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError, match="shutting down"):
            ask_until_refused(stub)
        assert [answer.id for answer in stream] == [1]
    assert server.wait() == 0
