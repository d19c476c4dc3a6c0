"""Envoy with our configuration protects a server from hostile clients."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.attacks import Attack, Flood, compressed_headers, deadlines, priorities, rapid_resets
from support.envoys import Envoy, needs_envoy
from support.fleets import Fleet
from support.served import stub_of
from support.shipped import newest
from support.spending import memory_at_most, typical_cpu_seconds
from support.waiting import wait_for

pytestmark = needs_envoy

SWIFT = newest("swift")
BOARD = pb.NextMoveRequest(board=[1] * 16)
HONEST_CALLS = 8
MIB = 2**20


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Envoy, int]]:
    """Envoy, and the process id of the server behind it."""
    folder = tmp_path_factory.mktemp("envoy")
    shutil.copytree(SWIFT, folder / "models" / "swift" / SWIFT.name)
    with Fleet(folder, "--lanes", "1", "--max-batch-size", "8", "--transport", "native") as fleet:
        server = fleet.start(folder / "models")
        with Envoy(folder, fleet) as envoy:
            yield envoy, server.process.pid


@pytest.fixture
def place(started: tuple[Envoy, int]) -> tuple[str, int]:
    """The address of Envoy once its server is healthy, and the server's process id."""
    envoy, server = started
    wait_for(lambda: envoy.count("membership_healthy") == 1)
    return envoy.target, server


@pytest.mark.parametrize("acknowledges", [True, False])
@pytest.mark.parametrize("attack", [compressed_headers, rapid_resets, priorities, deadlines])
def test_envoy_stops_an_attack_while_honest_calls_are_answered(
    place: tuple[str, int], attack: Attack, acknowledges: bool
) -> None:
    target, server = place
    with stub_of(target) as stub:
        stub.NextMove(BOARD, timeout=60)

        def ask() -> None:
            before = flood.calls
            wait_for(lambda: flood.calls > before)
            stub.NextMove(BOARD, timeout=60)

        with (
            memory_at_most(server, 50 * MIB, "an attack through Envoy"),
            Flood(target, attack, acknowledges=acknowledges) as flood,
        ):
            assert typical_cpu_seconds(server, ask, HONEST_CALLS) < 0.25


def test_a_connection_that_resets_its_calls_is_closed(place: tuple[str, int]) -> None:
    target, _ = place
    with Flood(target, rapid_resets, connections=1) as flood:
        wait_for(lambda: flood.begun > 3)


@pytest.mark.parametrize("algorithm", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_message_that_is_too_large_or_compressed_does_not_reach_the_server(
    place: tuple[str, int], algorithm: grpc.Compression
) -> None:
    target, server = place
    boards = bytes(300 * MIB)
    with (
        memory_at_most(server, 50 * MIB, "a message of 300 MiB"),
        grpc.insecure_channel(target, [("grpc.max_send_message_length", -1)]) as channel,
        pytest.raises(grpc.RpcError) as failure,
    ):
        OctofoldServiceStub(channel).NextMoves(
            pb.NextMovesRequest(boards=boards), timeout=60, compression=algorithm
        )
    is_packed = algorithm is grpc.Compression.Gzip
    assert failure.value.code() is (grpc.StatusCode.UNIMPLEMENTED if is_packed else grpc.StatusCode.UNKNOWN)


def test_the_longest_valid_message_reaches_the_server(place: tuple[str, int]) -> None:
    target, _ = place
    boards = bytes(16) * 131_072
    with (
        grpc.insecure_channel(target) as channel,
        pytest.raises(grpc.RpcError, match="may have at most 65536 boards"),
    ):
        OctofoldServiceStub(channel).NextMoves(pb.NextMovesRequest(boards=boards), timeout=60)
