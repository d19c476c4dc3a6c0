"""Clients that send keepalive pings."""

from __future__ import annotations

import pytest
from support.http2 import RawConnection
from support.http2_frames import PING, frame
from support.servers import Start, WriteVersion


@pytest.mark.long
def test_pings_somewhat_more_often_than_every_ten_seconds_are_answered(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    server = start_server()
    with RawConnection(server.target) as connection:
        for _ in range(4):  # three early pings would end the connection
            connection.write(frame(PING, 0, 0, bytes(8)))
            assert not connection.closed.wait(6)
