"""A channel to the server that the tests of a file share."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from support.servers import ServerProcess


@pytest.fixture(scope="module")
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.target) as channel:
        yield channel
