"""Health apart from the service: it has threads of its own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from octofold_server.lifecycle import health_servicer


def test_health_is_told_while_every_thread_for_calls_is_taken() -> None:
    taken, free = threading.Event(), threading.Event()

    def wait(request: bytes, context: grpc.ServicerContext) -> bytes:  # noqa: ARG001 -- gRPC's
        taken.set()
        free.wait()
        return request

    server = grpc.server(ThreadPoolExecutor(1))
    handlers = {"Wait": grpc.unary_unary_rpc_method_handler(wait)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Busy", handlers)])
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer(), server)
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
