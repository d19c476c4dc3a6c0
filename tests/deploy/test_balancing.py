"""Envoy with our configuration and several servers: one dies, and a new version replaces an old one."""

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
from support.envoys import CONFIGURATION, Envoy, needs_envoy, program
from support.fleets import Fleet
from support.shipped import newest
from support.waiting import wait_for

pytestmark = needs_envoy

CALLERS = 4
ENOUGH_CALLS = 40
PAUSE_SECONDS = 0.01
"""Pause of a caller between two calls, so that servers can start beside the load."""


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Repositories with version 1 and with version 2 of a model; both versions have the same network."""
    repositories = [tmp_path_factory.mktemp("old"), tmp_path_factory.mktemp("new")]
    for version, repository in enumerate(repositories, 1):
        target = repository / "swift" / str(version)
        shutil.copytree(newest("swift"), target)
        card = msgspec.structs.replace(read_card(target), version=version)
        (target / CARD_FILE).write_bytes(encode_card(card))
    return repositories


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, "--lanes", "1", "--max-batch-size", "8") as fleet:
        yield fleet


@pytest.fixture
def envoy(tmp_path: Path, fleet: Fleet) -> Iterator[Envoy]:
    with Envoy(tmp_path, fleet) as started:
        yield started


class Load:
    """Callers that repeat calls, and the results of these calls."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        """Number of answers of each version."""
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
        """Wait for `ENOUGH_CALLS` more answers of a version."""
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


def test_envoy_accepts_the_configuration_and_reports_nothing_deprecated() -> None:
    command = [str(program()), "--mode", "validate", "--log-level", "warning", "-c", str(CONFIGURATION)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Deprecated" not in done.stderr


def test_a_server_killed_under_load_loses_no_call(fleet: Fleet, envoy: Envoy, versions: list[Path]) -> None:
    first, _ = fleet.start(versions[0]), fleet.start(versions[0])
    wait_for(lambda: envoy.count("membership_healthy") == 2)
    with load_on(envoy.target, DEFAULT_RETRY) as load:
        load.wait_for_answers("1")
        first.kill()
        load.wait_for_answers("1")
        wait_for(lambda: envoy.count("membership_healthy") == 1)
        load.wait_for_answers("1")
    assert load.lost == []
    assert envoy.count("upstream_rq_retry_success") > 0
    request = pb.StreamNextMovesRequest(request=pb.NextMovesRequest(boards=bytes(16)))
    with grpc.insecure_channel(envoy.target) as channel:
        assert len(list(OctofoldServiceStub(channel).StreamNextMoves(iter([request] * 3)))) == 3


def test_a_new_version_replaces_the_old_one_under_load_without_a_lost_call(
    fleet: Fleet, envoy: Envoy, versions: list[Path]
) -> None:
    old = fleet.start(versions[0], "--grace", "3600")
    wait_for(lambda: envoy.count("membership_healthy") == 1)
    with load_on(envoy.target, NO_RETRY) as load:
        load.wait_for_answers("1")
        new = fleet.start(versions[1], named=False)
        new.wait_until_ready()
        fleet.addresses = (new.address,)
        wait_for(lambda: envoy.count("membership_healthy") == 2)  # preStop waits for this
        old.process.send_signal(signal.SIGTERM)
        wait_for(lambda: envoy.count("membership_healthy") == 1)
        assert old.terminate() == 0  # the second signal ends its grace
        load.answers.clear()
        load.wait_for_answers("2")
    assert set(load.answers) == {"2"}
    assert load.lost == []


def test_probes_and_prometheus_reach_only_what_they_need(envoy: Envoy) -> None:
    statuses = {}
    for path in ("/ready", "/stats/prometheus", "/quitquitquit", "/"):
        connection = http.client.HTTPConnection(envoy.operations, timeout=30)
        connection.request("GET", path)
        statuses[path] = connection.getresponse().status
        connection.close()
    assert statuses == {"/ready": 200, "/stats/prometheus": 200, "/quitquitquit": 404, "/": 404}
