"""Connects to a Ray cluster, and explains a failure in one line."""

import logging
import os
import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import ray
from ray.exceptions import NodeDiedError, RayActorError, RayError, RayTaskError, WorkerCrashedError

from octofold_client.errors import ClusterError
from octofold_client.wording import counted, describe, listed

CHECK_TIMEOUT_SECONDS = 5.0
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+):([0-9]{1,5})", re.ASCII)
_CHECK_ALIVE = "/ray.rpc.NodeInfoGcsService/CheckAlive"


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connect this program to a cluster while the block runs.

    Args:
        address: HOST:PORT of the head node; "auto" for the address in the variable RAY_ADDRESS or, without
            the variable, the cluster of this machine. Ignored if the program is already connected.

    Raises:
        ClusterError: the address is malformed, no cluster answers, or it has another Ray or Python version.
    """
    if ray.is_initialized():
        yield
        return
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", address)
    if address != "auto":
        _check(address)
    on_termination = signal.getsignal(signal.SIGTERM)  # Ray replaces this handler
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # they are meant for authors of Ray programs
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RayError, RuntimeError, ValueError) as error:
        if address == "auto" and isinstance(error, ConnectionError):
            raise ClusterError(
                "no Ray cluster runs on this machine: name one with --ray HOST:PORT, or start one with "
                "`ray start --head`"
            ) from None
        raise ClusterError(f"cannot join the Ray cluster at {address}: {reason(error)}") from None
    finally:
        signal.signal(signal.SIGTERM, on_termination)
    try:
        yield
    finally:
        ray.shutdown()


def reason(error: BaseException) -> str:
    """Return the reason in the message of a Ray error, in one line. Most messages of Ray are a page long."""
    if isinstance(error, NodeDiedError):
        return "the node of the task died"
    if isinstance(error, WorkerCrashedError | RayActorError):
        return "the node or the worker process of the task died"
    if isinstance(error, RayTaskError):
        return describe(error.cause)
    # The last line of a message names the cause.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def cpus() -> int:
    """Return the number of CPUs of the cluster, as its nodes declare them."""
    return int(sum(node["Resources"].get("CPU", 0) for node in _nodes()))


def free_capacity() -> str:
    """Describe the nodes and their free resources, such as "2 nodes with 1 of 4 CPUs free"."""
    free, total = ray.available_resources(), ray.cluster_resources()
    shares = [
        f"{free.get(name, 0):g} of {total[name]:g} {name}s" for name in ("CPU", "GPU") if total.get(name)
    ]
    return f"{counted(len(_nodes()), 'node')} with {listed(shares)} free"


def _nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _check(address: str) -> None:
    """Check that a cluster answers. Without this check, Ray would wait for minutes and end the program.

    Raises:
        ClusterError: the address is malformed, or no cluster answers.
    """
    if address.startswith("ray://"):
        raise ClusterError(
            f"{address} is for Ray's remote client: run on a machine of the cluster, and use HOST:PORT"
        )
    if _ADDRESS.fullmatch(address) is None:
        raise ClusterError(
            f"--ray or RAY_ADDRESS must be HOST:PORT, such as 10.0.0.1:6379, or auto, got {address!r}"
        )
    if os.environ.get("RAY_USE_TLS", "0") not in ("0", ""):
        return  # only Ray can connect, with the cluster's certificates

    # Like Ray, do not use a proxy.
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        try:
            ask: Any = channel.unary_unary(_CHECK_ALIVE)
            # Empty bytes are a valid request.
            ask(b"", timeout=CHECK_TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            code = error.code()
            if code is grpc.StatusCode.UNAUTHENTICATED:
                return  # a cluster answered; Ray itself has the token
            if code is grpc.StatusCode.UNIMPLEMENTED:
                raise ClusterError(f"{address} is a gRPC server, but not a Ray cluster") from None
            raise ClusterError(f"{address} is not a Ray cluster, or it does not answer") from None
