"""Reads from the server's counters how much time its calls spent in the queue, in the model and elsewhere.

The counters come over the Open Inference Protocol from the port under load. They include the calls of other
clients.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, Self

import grpc
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference import grpc_service_pb2_grpc

from octofold_client.rpc.channels import OPTIONS
from octofold_client.rpc.credentials import Credentials
from octofold_client.rpc.targets import addresses_of, is_name

ASK_SECONDS = 5.0


@dataclass(frozen=True)
class ServerCounters:
    """The counters of one model version since it was loaded."""

    calls: int
    """Answered calls."""
    call_ns: int
    """Time of these calls from arrival to answer."""
    queue_ns: int
    inference_ns: int
    boards: int
    batches: int


@dataclass(frozen=True)
class Split:
    """Average times of the calls that a server answered."""

    calls: int
    queue_ms: float
    inference_ms: float
    rest_ms: float
    """Time outside queue and model: reading, writing, waiting for a thread."""
    boards_per_batch: float

    @property
    def total_ms(self) -> float:
        """Time from arrival to answer."""
        return self.queue_ms + self.inference_ms + self.rest_ms

    @classmethod
    def between(cls, before: ServerCounters | None, after: ServerCounters | None) -> Split | None:
        """The averages between two readings; None without new calls, or if the server restarted."""
        if before is None or after is None or after.calls <= before.calls or after.batches <= before.batches:
            return None
        calls = after.calls - before.calls
        queue_ms = (after.queue_ns - before.queue_ns) / calls / 1e6
        inference_ms = (after.inference_ns - before.inference_ns) / calls / 1e6
        total_ms = (after.call_ns - before.call_ns) / calls / 1e6
        return cls(
            calls=calls,
            queue_ms=queue_ms,
            inference_ms=inference_ms,
            rest_ms=max(0.0, total_ms - queue_ms - inference_ms),
            boards_per_batch=(after.boards - before.boards) / (after.batches - before.batches),
        )


class ServerStatistics:
    """Reads the counters of one model version, summed over the servers of a target; a context manager.

    Each server has a connection of its own. The servers of a name cannot be asked one by one.
    """

    def __init__(self, target: str, model: str, version: str, credentials: Credentials) -> None:
        addresses = addresses_of(target)
        self._channels = (
            []
            if any(map(is_name, addresses))
            else [credentials.channel(grpc, address, OPTIONS) for address in addresses]
        )
        stubs = map(grpc_service_pb2_grpc.GRPCInferenceServiceStub, self._channels)
        self._asks = [stub.ModelStatistics for stub in stubs]
        self._request = oip.ModelStatisticsRequest(name=model, version=version)
        self._metadata = credentials.metadata

    def read(self) -> ServerCounters | None:
        """The current counters; None if a server does not report them in time."""
        found = [self._read(ask) for ask in self._asks]
        if not found or None in found:
            return None
        rows = [astuple(counters) for counters in found if counters is not None]
        return ServerCounters(*(sum(numbers) for numbers in zip(*rows, strict=True)))

    def _read(self, ask: Any) -> ServerCounters | None:
        try:
            response = ask(self._request, timeout=ASK_SECONDS, metadata=self._metadata)
            (found,) = response.model_stats
        except (grpc.RpcError, ValueError):
            return None
        calls = found.inference_stats
        return ServerCounters(
            calls=calls.success.count,
            call_ns=calls.success.ns,
            queue_ns=calls.queue.ns,
            inference_ns=calls.compute_infer.ns,
            boards=found.inference_count,
            batches=found.execution_count,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for channel in self._channels:
            channel.close()
