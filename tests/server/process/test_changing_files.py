"""Files of the repository that change, or are no files, while a server reads them: it goes on serving."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from onnx import TensorProto, helper
from support.waiting import wait_for

WriteVersion = Callable[..., Path]
Start = Callable[..., Any]

BOARD = pb.NextMoveRequest(board=[1] * 16)
SETTLED = (pb.ModelVersion.STATE_READY, pb.ModelVersion.STATE_FAILED)
CELLS = 1 << 26
"""Of a table: 256 MiB take so long to hash that nobody can miss it."""


@pytest.fixture
def graph_with_table(graph: bytes) -> bytes:
    """The tiny graph, which takes the four moves from the beginning of a table in a file of its own."""
    model = onnx.load_from_string(graph)
    (moves,) = (tensor for tensor in model.graph.initializer if tensor.name == "moves")
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[CELLS])
    table.data_location = TensorProto.EXTERNAL
    table.external_data.add(key="location", value="table.bin")
    model.graph.initializer.remove(moves)
    first = onnx.numpy_helper.from_array(np.array([[0, 1, 2, 3]], np.int64), "first")
    model.graph.initializer.extend([table, first])
    model.graph.node.insert(0, helper.make_node("Gather", ["table", "first"], ["row"]))
    model.graph.node.insert(1, helper.make_node("Cast", ["row"], ["moves"], to=TensorProto.INT32))
    return bytes(model.SerializeToString())


def write_table(path: Path) -> str:
    """Its SHA-256."""
    table = np.zeros(CELLS, "<f4")
    table[:4] = range(4)
    path.write_bytes(table.tobytes())
    return hashlib.sha256(table).hexdigest()


def holds_open(pid: int, path: Path) -> bool:
    """Whether a process has opened a file, or mapped it into its memory."""
    own = Path("/proc") / str(pid)
    if str(path) in (own / "maps").read_text():
        return True
    for descriptor in (own / "fd").iterdir():
        try:
            if descriptor.readlink() == path:
                return True
        except OSError:  # closed meanwhile
            continue
    return False


def test_a_table_that_is_cut_off_while_it_is_loaded_does_not_end_the_server(
    write_version: WriteVersion, start_server: Start, tmp_path: Path, graph_with_table: bytes
) -> None:
    write_version()
    server = start_server()
    folder = write_version("tiny", 2, graph_with_table, beside=True)
    listed = {"file": "table.bin", "sha256": write_table(folder / "table.bin")}
    card = json.loads((folder / "card.json").read_text())
    card["precisions"]["fp32"]["tensors"] = {"table": listed}
    (folder / "card.json").write_text(json.dumps(card))
    table = folder.rename(tmp_path / "models" / "tiny" / "2") / "table.bin"
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)

        def state() -> int:
            (model,) = stub.ListModels(pb.ListModelsRequest()).models
            states = {status.version: status.state for status in model.versions}
            return states.get("2", pb.ModelVersion.STATE_UNSPECIFIED)

        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: holds_open(server.process.pid, table) or state() in SETTLED)
        os.truncate(table, 0)
        wait_for(lambda: state() in SETTLED)
        # If all of it had been read by then, the new version serves; else the old one goes on.
        assert stub.NextMove(BOARD).version == ("2" if state() == pb.ModelVersion.STATE_READY else "1")
    assert server.terminate() == 0
