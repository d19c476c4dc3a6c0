"""Reads the server's counters of the time that calls spent in the queue, in the model and elsewhere.

The counters are read over the Open Inference Protocol, from the port under load. They include the calls of
other clients.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import grpc
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub

from octofold_client.rpc.channels import OPTIONS
from octofold_client.rpc.credentials import Credentials
from octofold_client.rpc.targets import addresses_of, is_name

READ_TIMEOUT_SECONDS = 5.0


class ServerCounters(NamedTuple):
    """The counters of one model version since it was loaded."""

    calls: int
    """Number of answered calls."""
    call_ns: int
    """Total time of the answered calls, from arrival to answer."""
    queue_ns: int
    inference_ns: int
    boards: int
    batches: int


@dataclass(frozen=True)
class ServerTimes:
    """Average times of the calls that a server answered."""

    calls: int
    queue_ms: float
    inference_ms: float
    rest_ms: float
    """Average time outside queue and model: reading, writing, waiting for a thread."""
    boards_per_batch: float

    @classmethod
    def between(cls, before: ServerCounters | None, after: ServerCounters | None) -> ServerTimes | None:
        """Return the averages between two readings; None without readings or calls, or after a restart."""
        if before is None or after is None:
            return None
        new = ServerCounters(*(now - then for now, then in zip(after, before, strict=True)))
        if new.calls <= 0 or new.batches <= 0:
            return None
        call_ms, queue_ms, inference_ms = (
            nanoseconds / new.calls / 1e6 for nanoseconds in (new.call_ns, new.queue_ns, new.inference_ns)
        )
        rest_ms = max(0.0, call_ms - queue_ms - inference_ms)
        return cls(new.calls, queue_ms, inference_ms, rest_ms, new.boards / new.batches)


class ServerStatistics(ExitStack):
    """Reads the counters of one model version, summed over the servers of a target; a context manager.

    Each address has its own connection. If an address is a DNS name of several servers, `read` returns None,
    because these servers cannot be asked one by one.
    """

    def __init__(self, target: str, model: str, version: str, credentials: Credentials) -> None:
        super().__init__()
        addresses = addresses_of(target)
        if any(map(is_name, addresses)):
            addresses = ()
        channels = [self.enter_context(credentials.channel(grpc, address, OPTIONS)) for address in addresses]
        self._asks = [GRPCInferenceServiceStub(channel).ModelStatistics for channel in channels]
        self._request = oip.ModelStatisticsRequest(name=model, version=version)
        self._metadata = credentials.metadata

    def read(self) -> ServerCounters | None:
        """Return the current counters; None if a server does not report them before the timeout."""
        found = []
        for ask in self._asks:
            try:
                (stats,) = ask(
                    self._request, timeout=READ_TIMEOUT_SECONDS, metadata=self._metadata
                ).model_stats
            except (grpc.RpcError, ValueError):
                return None
            calls, batches = stats.inference_stats, (stats.inference_count, stats.execution_count)
            times = (calls.success.ns, calls.queue.ns, calls.compute_infer.ns)
            found.append(ServerCounters(calls.success.count, *times, *batches))
        return ServerCounters(*map(sum, zip(*found, strict=True))) if found else None
