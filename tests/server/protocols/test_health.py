"""Health over a real connection: answers, updates of watches, and their cost."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest
from grpc_health.v1 import health_pb2
from octofold_server.protocols import health as health_module
from octofold_server.protocols.health import MAX_NAME, Health
from support.grpc_calls import HealthCalls, health_stub
from support.servers import Served
from support.waiting import wait_for

TRANSPORTS = ("native", "direct")

READY, NOT_READY = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
SERVICE = "octofold.v1.OctofoldService"


@pytest.fixture
def stub(server: Served) -> HealthCalls:
    return health_stub(server.channel)


def asked(name: str = "") -> health_pb2.HealthCheckRequest:
    return health_pb2.HealthCheckRequest(service=name)


def test_health_reports_the_readiness_of_each_model_and_of_the_service() -> None:
    health = Health(["service"])

    def statuses(*names: str) -> list[int]:
        return [health.status(name) for name in names]

    health.set_model("model", True)
    health.set_model("service", False)  # a model cannot take the name of a service
    assert statuses("", "service", "model") == [NOT_READY] * 3
    health.serve()
    assert statuses("", "service", "model") == [READY] * 3
    health.set_model("model", False)
    assert statuses("", "service", "model") == [NOT_READY] * 3  # every call fails
    health.set_model("another", True)
    assert statuses("", "service", "model") == [READY, READY, NOT_READY]
    health.leave()
    health.set_model("model", True)
    assert statuses("", "service", "model") == [NOT_READY] * 3


def test_an_unknown_name_is_not_found_and_can_be_watched_until_a_model_has_it(
    server: Served, stub: HealthCalls
) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        stub.Check(asked("later"), timeout=30)
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND
    watch = stub.Watch(asked("later"), timeout=30)
    assert next(watch).status == UNKNOWN
    server.parts.health.set_model("later", True)
    assert next(watch).status == READY
    assert stub.Check(asked("later"), timeout=30).status == READY
    server.parts.health.leave()
    assert next(watch).status == NOT_READY
    watch.cancel()


def test_a_watch_reports_only_changes_and_the_latest_state(server: Served, stub: HealthCalls) -> None:
    watches = [stub.Watch(asked(name), timeout=30) for name in ("", SERVICE, "fake")]
    assert [next(watch).status for watch in watches] == [READY] * 3
    server.parts.health.set_model("another", True)  # changes none of the watched names
    server.parts.health.set_model("fake", False)
    assert next(watches[2]).status == NOT_READY
    server.parts.health.set_model("another", False)
    assert [next(watch).status for watch in watches[:2]] == [NOT_READY] * 2
    for watch in watches:
        watch.cancel()


def test_a_name_that_is_too_long_is_refused(stub: HealthCalls) -> None:
    def first_of_watch(request: health_pb2.HealthCheckRequest, timeout: float) -> object:
        return next(stub.Watch(request, timeout))

    methods: tuple[Callable[..., object], ...] = (stub.Check, first_of_watch)
    for method in methods:
        for length in (MAX_NAME + 1, 100_000):
            with pytest.raises(grpc.RpcError) as failure:
                method(asked("n" * length), timeout=30)
            assert failure.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
            assert len(str(failure.value.details())) < 1000


@pytest.mark.parametrize("limit", ["MAX_WATCHES", "MAX_WATCHES_PER_CONNECTION"])
def test_too_many_watches_are_refused_and_leave_nothing_behind(
    limit: str, server: Served, stub: HealthCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("MAX_WATCHES", "MAX_WATCHES_PER_CONNECTION"):
        monkeypatch.setattr(health_module, each, 16 if each == limit else 17)
    where = " on this connection" if "CONNECTION" in limit else ""
    watches = [stub.Watch(asked(f"name-{n}"), timeout=30) for n in range(16)]
    for watch in watches:
        assert next(watch).status == UNKNOWN
    with pytest.raises(grpc.RpcError, match=f"16 health watches are open{where}, the maximum") as failure:
        next(stub.Watch(asked(), timeout=30))
    assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert server.admission.refusals.counts()["RESOURCE_EXHAUSTED"] == 1
    for watch in watches:
        watch.cancel()
    wait_for(lambda: bool(server.parts.health.watches == 0))
    assert next(stub.Watch(asked(), timeout=30)).status == READY
