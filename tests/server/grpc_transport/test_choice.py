"""Which transport serves when grpcio is not what the direct one takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.grpc_transport.choice import check
from octofold_server.grpc_transport.direct import DirectServer
from octofold_server.grpc_transport.public import PublicServer
from octofold_server.grpc_transport.self_call import private_address
from octofold_server.system.grpc_core import knows_our_experiment
from support.servers import Start, WriteVersion

OTHER_GRPCIO = """
import sys
from grpc._cython import cygrpc
{change}
from octofold_server.cli import main
sys.exit(main())
"""
MISSING = "del cygrpc.ReceiveCloseOnServerOperation"
MISBEHAVING = """
Status = cygrpc.SendStatusFromServerOperation
cygrpc.SendStatusFromServerOperation = lambda metadata, code, details, flags: Status((), 0, b"", flags)
"""

CHECK_WITH_A_CONNECTION_THAT_STAYS = """
import grpc
from octofold_server.grpc_transport.choice import check
from octofold_server.grpc_transport.{module} import {name}
from octofold_server.grpc_transport.self_call import private_address

class Server({name}):
    def start(self):
        super().start()
        self.channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self.channel).result(30)

with private_address() as address:
    check(Server, address)
"""


@pytest.mark.parametrize("change", [MISSING, MISBEHAVING])
def test_auto_serves_by_public_names_when_a_private_one_is_missing_or_behaves_in_another_way(
    write_version: WriteVersion, start_server: Start, change: str
) -> None:
    write_version()
    server = start_server("--transport", "auto", program=("-c", OTHER_GRPCIO.format(change=change)))
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        assert stub.NextMove(pb.NextMoveRequest(board=[1] * 16), timeout=30).model == "tiny"
    (told,) = [line for line in server.log.splitlines() if "using --transport public" in line]
    assert grpc.__version__ in told
    assert server.terminate() == 0


def test_direct_is_a_failure_in_one_line_when_a_private_name_is_missing(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    program = ("-c", OTHER_GRPCIO.format(change="del cygrpc.WriteFlag"))
    server = start_server("--transport", "direct", ready=False, program=program)
    assert server.wait() == 1
    assert "--transport direct cannot serve here: AttributeError" in server.log
    assert "Traceback" not in server.log


def test_auto_is_direct_with_this_grpcio(write_version: WriteVersion, start_server: Start) -> None:
    write_version()
    server = start_server("--transport", "auto")
    assert "public" not in server.log.replace("transport=", "")
    assert server.terminate() == 0


@pytest.mark.parametrize("transport", [DirectServer, PublicServer])
def test_both_transports_pass_the_check_at_start(transport: type[DirectServer | PublicServer]) -> None:
    with private_address() as address:
        check(transport, address)


@pytest.mark.parametrize("transport", [DirectServer, PublicServer])
def test_a_connection_that_is_still_open_when_the_check_ends_leaves_no_words_of_grpc_in_the_log(
    transport: type[DirectServer | PublicServer],
) -> None:
    module = transport.__module__.rpartition(".")[2]
    program = CHECK_WITH_A_CONNECTION_THAT_STAYS.format(module=module, name=transport.__name__)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_library_without_the_experiment_is_noticed(tmp_path: Path) -> None:
    assert knows_our_experiment(DirectServer.library())
    (tmp_path / "library").write_bytes(b"\0event_engine_client\0")
    assert not knows_our_experiment(tmp_path / "library")
