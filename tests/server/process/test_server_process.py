"""octofold-serve as a process: readiness, health, reflection, draining, and models that cannot be served."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.messages import boards_to_bytes, moves_from_bytes
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.backends.fakes import fake_moves

WriteVersion = Callable[..., Path]
Start = Callable[..., Any]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICES = ("", "octofold.v1.OctofoldService", "tiny")


def boards_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 12, (count, 16), dtype=np.uint8)


def ask(stub: OctofoldServiceStub, boards: np.ndarray, **fields: Any) -> np.ndarray:
    reply = stub.NextMoves(pb.NextMovesRequest(boards=boards_to_bytes(boards), **fields))
    return moves_from_bytes(reply.moves, len(boards))


def ask_until_refused(stub: OctofoldServiceStub) -> None:
    while True:
        ask(stub, boards_of(1))


def versions(stub: OctofoldServiceStub) -> dict[tuple[str, str], Any]:
    models = stub.ListModels(pb.ListModelsRequest()).models
    return {(model.name, version.version): version for model in models for version in model.versions}


def test_a_ready_server_answers_every_rpc(write_version: WriteVersion, start_server: Start) -> None:
    write_version()
    with grpc.insecure_channel(start_server().target) as channel:
        stub = OctofoldServiceStub(channel)
        boards = boards_of(1000)
        np.testing.assert_array_equal(ask(stub, boards), fake_moves(boards).moves)
        assert stub.NextMove(pb.NextMoveRequest(board=boards[0].tolist())).model == "tiny"
        messages = (
            pb.StreamNextMovesRequest(id=n, request=pb.NextMovesRequest(boards=boards[n].tobytes()))
            for n in range(100)
        )
        moves = {answer.id: answer.response.moves for answer in stub.StreamNextMoves(messages)}
        assert [moves[n] for n in range(100)] == [move.tobytes() for move in fake_moves(boards).moves[:100]]
        assert versions(stub)["tiny", "1"].state == pb.ModelVersion.STATE_READY


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at threads as Linux shows them")
def test_messages_are_read_by_the_thread_that_waits_for_calls(
    write_version: WriteVersion, start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wakes_of_the_pool() -> int:
        pool = []
        for thread in Path(f"/proc/{server.process.pid}/task").iterdir():
            with suppress(FileNotFoundError):  # it ended meanwhile
                status = (thread / "status").read_text()
                if status.startswith("Name:\tevent_engine"):
                    pool += re.findall(r"^voluntary_ctxt_switches:\t(\d+)", status, re.MULTILINE)
        assert pool
        return sum(map(int, pool))

    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    write_version()
    server = start_server()
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        ask(stub, boards_of(1))
        before = wakes_of_the_pool()
        for _ in range(300):
            ask(stub, boards_of(1))
        assert wakes_of_the_pool() - before < 150


def test_the_newest_ready_version_answers_unless_another_is_asked_for(
    write_version: WriteVersion, start_server: Start
) -> None:
    for version in (2, 10, 9):
        write_version(version=version)
    write_version(version=11, model=b"not a graph")
    write_version(name="other")
    server = start_server("--default-model", "tiny")
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        board = [1] * 16
        assert stub.NextMove(pb.NextMoveRequest(board=board)).version == "10"
        assert stub.NextMove(pb.NextMoveRequest(board=board, version="9")).version == "9"
        assert stub.NextMove(pb.NextMoveRequest(board=board, model="other")).model == "other"
        assert [version for name, version in versions(stub) if name == "tiny"] == ["2", "9", "10", "11"]


def test_two_models_without_a_default_must_be_named(write_version: WriteVersion, start_server: Start) -> None:
    write_version(name="one")
    write_version(name="two")
    with grpc.insecure_channel(start_server().target) as channel:
        stub = OctofoldServiceStub(channel)
        with pytest.raises(grpc.RpcError, match="name one of one/1, two/1") as failure:
            ask(stub, boards_of(1))
        assert failure.value.code() == grpc.StatusCode.NOT_FOUND
        ask(stub, boards_of(1), model="two")


def test_health_says_serving_once_ready_and_not_serving_while_draining(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--grace", "60")
    with grpc.insecure_channel(server.target) as channel:
        health = health_pb2_grpc.HealthStub(channel)
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
    write_version: WriteVersion, start_server: Start, gate: Any, another_graph: bytes
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
        stub, health = OctofoldServiceStub(channel), health_pb2_grpc.HealthStub(channel)
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
    write_version: WriteVersion, start_server: Start, gate: Any
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
    write_version: WriteVersion, start_server: Start, gate: Any, another_graph: bytes, asked_by: str
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
    write_version: WriteVersion, start_server: Start, gate: Any, another_graph: bytes
) -> None:
    write_version()
    server = start_server(program=gate.program)
    held = write_version("another", model=another_graph)
    gate.hold(held)
    with grpc.insecure_channel(server.target) as channel:
        health, admin = health_pb2_grpc.HealthStub(channel), GRPCInferenceServiceStub(channel)

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
        r"after 0\.3 seconds of draining, 1 calls and streams are given up; 2\d{3} boards", server.log
    )


def test_an_unknown_variable_is_told_when_the_server_starts(
    write_version: WriteVersion, start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_version()
    monkeypatch.setenv("OCTOFOLD_QQ", "4")
    server = start_server()
    assert "OCTOFOLD_QQ is not a variable of octofold-serve" in server.log


@pytest.mark.parametrize("enabled", [True, False])
def test_reflection_describes_the_service_unless_turned_off(
    write_version: WriteVersion, start_server: Start, enabled: bool
) -> None:
    write_version()
    server = start_server("--reflection" if enabled else "--no-reflection")
    with grpc.insecure_channel(server.target) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        if enabled:
            assert set(database.get_services()) >= {SERVICES[1], "grpc.health.v1.Health"}
            assert database.FindFileContainingSymbol(SERVICES[1]).package == "octofold.v1"
        else:
            with pytest.raises(grpc.RpcError) as failure:
                list(database.get_services())
            assert failure.value.code() == grpc.StatusCode.UNIMPLEMENTED


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

        def messages() -> Any:
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
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError, match="shutting down"):
            ask_until_refused(stub)
        assert [answer.id for answer in stream] == [1]
    assert server.wait() == 0


def test_a_stream_on_which_nothing_comes_and_nothing_is_owed_is_ended(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--stream-idle", "0.3")
    with grpc.insecure_channel(server.target) as channel:
        done = threading.Event()

        def messages() -> Any:
            yield pb.StreamNextMovesRequest(id=1, request=pb.NextMovesRequest(boards=bytes(16)))
            done.wait()

        stream = OctofoldServiceStub(channel).StreamNextMoves(messages())
        assert next(stream).id == 1
        with pytest.raises(grpc.RpcError, match=r"nothing came on this stream for 0.3 seconds") as failure:
            next(stream)
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
        done.set()


async def test_clients_that_begin_calls_and_never_finish_them_hold_up_nobody(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    limits = ("--max-calls", "20", "--max-streams", "20", "--max-calls-per-connection", "40")
    server = start_server(*limits)
    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
    async with AsyncExitStack() as channels:
        idlers = [
            await channels.enter_async_context(grpc.aio.insecure_channel(server.target, options=options))
            for _ in range(6)
        ]
        other = await channels.enter_async_context(grpc.aio.insecure_channel(server.target, options=options))
        methods = ("octofold.v1.OctofoldService/NextMoves", "octofold.v1.OctofoldService/ListModels")
        methods += ("grpc.health.v1.Health/Check", "grpc.health.v1.Health/Watch")
        begin = [idler.stream_unary(f"/{method}") for idler in idlers for method in methods]
        begun = [begin_one() for begin_one in begin for _ in range(10)]  # none ever sends its message
        reflection = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        begun += [idler.stream_unary(reflection)() for idler in idlers for _ in range(10)]

        async def call() -> None:
            await OctofoldServiceStub(other).NextMoves(pb.NextMovesRequest(boards=bytes(16)), timeout=30)

        async def probe() -> None:
            await health_pb2_grpc.HealthStub(other).Check(health_pb2.HealthCheckRequest(), timeout=30)

        for ask in (call, probe):
            for _ in range(20):
                await ask()
        assert re.search(r"the messages of \d+ calls do not come", server.log)
        for one in begun:
            one.cancel()


async def test_one_connection_cannot_take_all_the_streams(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--max-streams-per-connection", "2")
    message = pb.StreamNextMovesRequest(request=pb.NextMovesRequest(boards=bytes(16)))

    async def open_stream(channel: grpc.aio.Channel) -> Any:
        stream = OctofoldServiceStub(channel).StreamNextMoves()
        await stream.write(message)
        await stream.read()
        return stream

    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
    async with (
        grpc.aio.insecure_channel(server.target, options=options) as greedy,
        grpc.aio.insecure_channel(server.target, options=options) as modest,
    ):
        streams = [await open_stream(greedy) for _ in range(2)]
        with pytest.raises(grpc.aio.AioRpcError, match="2 streams are open on this connection") as failure:
            await OctofoldServiceStub(greedy).StreamNextMoves().read()  # to write, it may be over already
        assert failure.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        streams.append(await open_stream(modest))


async def test_streams_beyond_the_limit_are_refused_and_leave_threads_for_calls(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server("--max-streams", "20")
    async with grpc.aio.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        message = pb.StreamNextMovesRequest(request=pb.NextMovesRequest(boards=bytes(16)))

        async def open_stream() -> Any:
            stream = stub.StreamNextMoves()
            await stream.write(message)
            await stream.read()
            return stream

        streams = [await open_stream() for _ in range(20)]
        with pytest.raises(grpc.aio.AioRpcError, match="20 streams are open") as failure:
            await stub.StreamNextMoves().read()  # to write, it may be over already
        assert failure.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        await stub.NextMoves(message.request)
        await streams[0].done_writing()
        assert await streams[0].read() == grpc.aio.EOF
        await open_stream()


def test_broken_models_are_listed_with_their_reason_and_do_not_disturb_the_others(
    write_version: WriteVersion, start_server: Start, graph: bytes
) -> None:
    write_version()
    (write_version(name="altered") / "model.onnx").write_bytes(graph + b"\0")
    write_version(name="truncated", model=graph[: len(graph) // 2])
    (write_version(name="missing") / "model.onnx").unlink()
    (write_version(name="cardless") / "card.json").unlink()
    (write_version(name="scribbled") / "card.json").write_text("{", encoding="utf-8")
    renamed = onnx.load_from_string(graph)
    renamed.graph.output[0].name = renamed.graph.node[-1].output[0] = "answer"
    write_version(name="renamed", model=renamed.SerializeToString())
    write_version(name="elsewhere", precisions={"fp32": {"file": "../../x", "sha256": "0" * 64}})
    write_version(name="above", precisions={"fp32": {"file": "..", "sha256": "0" * 64}})
    write_version(name="nul", precisions={"fp32": {"file": "a\0b", "sha256": "0" * 64}})
    (write_version(name="nested") / "card.json").write_text("[" * 100_000, encoding="utf-8")
    reasons = {
        "altered": "SHA-256",
        "truncated": "cannot load it",
        "missing": "No such file",
        "cardless": "No such file",
        "scribbled": "not JSON",
        "renamed": "graph contract",
        "elsewhere": "not a file name",
        "above": "not a file name",
        "nul": "not a file name",
        "nested": "not JSON",
    }
    server = start_server("--default-model", "tiny")
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        known = versions(stub)
        for name, reason in reasons.items():
            assert known[name, "1"].state == pb.ModelVersion.STATE_FAILED
            assert reason in known[name, "1"].reason
            with pytest.raises(grpc.RpcError) as failure:
                ask(stub, boards_of(1), model=name)
            assert failure.value.code() == grpc.StatusCode.NOT_FOUND
        ask(stub, boards_of(1))


@pytest.mark.parametrize(
    ("prepare", "arguments", "message"),
    [
        (lambda write: write(model=b"not a graph"), (), "tiny/1: model.onnx: onnxruntime cannot load it"),
        (lambda write: write(), ("--default-model", "nobody"), "'nobody' cannot be served; ready: tiny"),
        (lambda write: write(), ("--precision", "int8"), "the card offers fp32, not int8"),
        (lambda write: write(), ("--models", "/nowhere"), "cannot read the model repository /nowhere"),
        (lambda write: write(), ("--port-file", "/nowhere/port"), "cannot write the port file"),
        (lambda write: write(), ("--host", ".."), "cannot listen on ..:0: '..' is not the name of a host"),
        (lambda write: write(), ("--host", "127.1"), "cannot listen on 127.1:0: gRPC cannot bind it"),
    ],
)
def test_a_server_with_nothing_to_serve_says_why_in_one_line_and_fails(
    write_version: WriteVersion, start_server: Start, prepare: Any, arguments: tuple[str, ...], message: str
) -> None:
    prepare(write_version)
    server = start_server(*arguments, ready=False)
    assert server.wait() == 1
    assert "Traceback" not in server.log
    assert message in server.log.splitlines()[-1]


def test_an_empty_repository_is_a_failure(tmp_path: Path, start_server: Start) -> None:
    (tmp_path / "models").mkdir()
    server = start_server(ready=False)
    assert server.wait() == 1
    assert "no models in" in server.log.splitlines()[-1]


def test_a_port_in_use_is_one_line_and_a_failure(write_version: WriteVersion, start_server: Start) -> None:
    write_version()
    first = start_server()
    second = start_server("--port", first.target.rpartition(":")[2], ready=False)
    assert second.wait() == 1
    assert second.log.splitlines() == [
        f"octofold-serve: cannot listen on {first.target}: Address already in use"
    ]
    assert not second.port_file.exists()


def test_a_server_that_fails_leaves_the_port_file_of_another_alone(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    first = start_server()
    second = start_server("--default-model", "nobody", "--port-file", str(first.port_file), ready=False)
    assert second.wait() == 1
    assert first.port_file.exists()


@pytest.mark.parametrize("missing", ["onnxruntime", "grpc_reflection"])
def test_the_base_installation_names_the_extra_in_one_line(missing: str) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None; "
        "from octofold_server.cli import main; sys.exit(main([]))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.startswith(f"octofold-serve: {missing}")
    assert " is missing; install it with: " in run.stderr
    assert run.stderr.rstrip("'\n").endswith("[server]")
    assert run.stderr.count("\n") == 1


def test_a_second_server_never_shares_the_port_of_one_on_another_address(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = start_server("--port", str(taken.getsockname()[1]), ready=False)
        assert server.wait() == 1


def test_a_wrong_value_is_one_line_and_exit_code_two() -> None:
    command = [sys.executable, "-m", "octofold_server.cli", "--lanes", "many"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert (
        run.stderr == "octofold-serve: --lanes: 'many' is not allowed; it takes an integer from 0 to 1024\n"
    )


def test_the_card_comes_as_it_was_written(write_version: WriteVersion, start_server: Start) -> None:
    write_version(architecture={"kind": "tiny"})
    with grpc.insecure_channel(start_server().target) as channel:
        card = json.loads(versions(OctofoldServiceStub(channel))["tiny", "1"].card_json)
        assert card["architecture"] == {"kind": "tiny"}
