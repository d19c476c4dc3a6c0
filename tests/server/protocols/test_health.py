"""Health apart from the service: it has threads of its own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from octofold_server.protocols.health import Health


def test_health_is_told_while_every_thread_for_calls_is_taken() -> None:
    taken, free = threading.Event(), threading.Event()

    def wait(request: bytes, context: grpc.ServicerContext) -> bytes:  # noqa: ARG001 -- gRPC's
        taken.set()
        free.wait()
        return request

    serving = Health([])
    serving.set_model("model", True)
    serving.serve()
    server = grpc.server(ThreadPoolExecutor(1))
    handlers = {"Wait": grpc.unary_unary_rpc_method_handler(wait)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Busy", handlers)])
    health_pb2_grpc.add_HealthServicer_to_server(serving.servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            waiting = channel.unary_unary("/test.Busy/Wait").future(b"asked")
            taken.wait()
            health = health_pb2_grpc.HealthStub(channel)
            reply = health.Check(health_pb2.HealthCheckRequest(), timeout=30)
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
            assert next(health.Watch(health_pb2.HealthCheckRequest(), timeout=30)) == reply
            free.set()
            assert waiting.result() == b"asked"
    finally:
        free.set()
        server.stop(None).wait()


def test_a_model_is_ready_when_it_is_and_the_service_is() -> None:
    serving = Health(["service"])

    def status(name: str) -> int:
        request = health_pb2.HealthCheckRequest(service=name)
        return int(serving.servicer.Check(request, None).status)  # type: ignore[arg-type]  # it takes no context

    ready, not_ready = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    serving.set_model("model", True)
    serving.set_model("service", False)  # the name of a service is not a model's to take
    assert [status(name) for name in ("", "service", "model")] == [not_ready] * 3
    serving.serve()
    assert [status(name) for name in ("", "service", "model")] == [ready] * 3
    serving.set_model("model", False)
    assert [status(name) for name in ("", "service", "model")] == [not_ready] * 3  # every call fails
    serving.set_model("another", True)
    assert [status(name) for name in ("", "service", "model")] == [ready, ready, not_ready]
    serving.leave()
    serving.set_model("model", True)
    assert [status(name) for name in ("", "service", "model")] == [not_ready] * 3
