"""Files of the repository that change, or are no files, while a server reads them: it goes on serving."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import signal
from pathlib import Path

import grpc
import numpy as np
import onnx
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from onnx import TensorProto, helper
from support.servers import Start, WriteVersion
from support.waiting import wait_for

BOARD = pb.NextMoveRequest(board=[1] * 16)
SETTLED = (pb.ModelVersion.STATE_READY, pb.ModelVersion.STATE_FAILED)
CELLS = 1 << 23
"""Of a table: 32 MiB take a while to hash."""


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
    return hashlib.sha256(table.tobytes()).hexdigest()


def list_table(folder: Path, sha256: str) -> None:
    """Let the card of a version name the table."""
    card = json.loads((folder / "card.json").read_text())
    card["precisions"]["fp32"]["tensors"] = {"table": {"file": "table.bin", "sha256": sha256}}
    (folder / "card.json").write_text(json.dumps(card))


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
    list_table(folder, write_table(folder / "table.bin"))
    table = folder.rename(tmp_path / "models" / "tiny" / "2") / "table.bin"
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)

        def state() -> int:
            (model,) = stub.ListModels(pb.ListModelsRequest()).models
            states: dict[str, int] = {status.version: status.state for status in model.versions}
            return states.get("2", pb.ModelVersion.STATE_UNSPECIFIED)

        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: holds_open(server.process.pid, table) or state() in SETTLED)
        os.truncate(table, 0)
        wait_for(lambda: state() in SETTLED)
        # If all of it had been read by then, the new version serves; else the old one goes on.
        assert stub.NextMove(BOARD).version == ("2" if state() == pb.ModelVersion.STATE_READY else "1")
    assert server.terminate() == 0


def test_a_version_with_a_pipe_for_a_file_is_not_served_and_the_others_are(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    files = ("card.json", "model.onnx", "table.bin")
    for version, file in enumerate(files, start=2):
        folder = write_version("tiny", version)
        if file == "table.bin":
            list_table(folder, "0" * 64)
        (folder / file).unlink(missing_ok=True)
        os.mkfifo(folder / file)
    server = start_server()
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        (model,) = stub.ListModels(pb.ListModelsRequest()).models
        reasons = {status.version: status.reason for status in model.versions}
        for version, file in enumerate(files, start=2):
            assert reasons[str(version)] == f"{file} cannot be read: it is not a regular file"
        assert stub.NextMove(BOARD).version == "1"
    assert server.terminate() == 0


def test_links_in_circles_devices_and_huge_numbers_hide_no_model(
    write_version: WriteVersion, start_server: Start
) -> None:
    models = write_version().parent.parent
    (models / "circle").symlink_to("circle")
    (models / "itself").symlink_to(models)
    (models / "tiny" / "2").symlink_to("2")
    for version, odd in (("3", Path("/dev/zero")), ("4", models), ("9" * 250, Path("nowhere"))):
        (models / "tiny" / version).mkdir()
        (models / "tiny" / version / "card.json").symlink_to(odd)
    server = start_server("--watch", "0.1")
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        (model,) = stub.ListModels(pb.ListModelsRequest()).models
        reasons = {status.version: status.reason for status in model.versions}
        assert reasons.keys() == {"1", "3", "4", "9" * 250}
        assert reasons["3"] == reasons["4"] == "card.json cannot be read: it is not a regular file"
        assert stub.NextMove(BOARD).version == "1"
    assert server.terminate() == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--config", "{pipe}"), 2),
        (("--tokens", "{pipe}"), 1),
        (("--admin-tokens", "{pipe}"), 1),
        (("--tls-certificate", "{pipe}", "--tls-key", "{pipe}"), 1),
    ],
)
def test_a_pipe_that_a_flag_names_is_one_line_and_a_failure(
    write_version: WriteVersion, start_server: Start, tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    write_version()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    server = start_server(*(argument.format(pipe=pipe) for argument in arguments), ready=False)
    assert server.wait() == code
    assert server.log == f"octofold-serve: {pipe} cannot be read: it is not a regular file\n"


@pytest.mark.parametrize("transport", ["native", "direct"])
def test_a_token_that_is_revoked_ends_its_open_streams_and_no_others(
    write_version: WriteVersion, start_server: Start, tmp_path: Path, transport: str
) -> None:
    write_version()
    tokens = tmp_path / "tokens"
    tokens.write_text("old\nother\n")
    server = start_server("--tokens", str(tokens), "--transport", transport)
    with grpc.insecure_channel(server.target) as channel:
        wishes: dict[str, queue.SimpleQueue[pb.StreamNextMovesRequest | None]] = {}
        streams = {}
        for token in ("old", "other"):
            wishes[token] = queue.SimpleQueue()
            wishes[token].put(pb.StreamNextMovesRequest(id=1, request=pb.NextMovesRequest(boards=bytes(16))))
            metadata = [("authorization", f"Bearer {token}")]
            messages = iter(wishes[token].get, None)
            streams[token] = OctofoldServiceStub(channel).StreamNextMoves(messages, metadata=metadata)
            assert next(streams[token]).id == 1
        tokens.write_text("other\n")
        with pytest.raises(grpc.RpcError, match="the token of this stream is no longer valid") as ended:
            next(streams["old"])
        assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED
        wishes["other"].put(pb.StreamNextMovesRequest(id=2, request=pb.NextMovesRequest(boards=bytes(16))))
        assert next(streams["other"]).id == 2
        for each in wishes.values():
            each.put(None)
    assert server.terminate() == 0


def test_a_token_file_that_is_rewritten_in_place_locks_nobody_out(
    write_version: WriteVersion, start_server: Start, tmp_path: Path
) -> None:
    write_version()
    tokens = tmp_path / "tokens"
    tokens.write_text("old\n")
    server = start_server("--tokens", str(tokens))
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)

        def is_known(token: str) -> bool:
            try:
                stub.NextMove(BOARD, metadata=[("authorization", f"Bearer {token}")])
            except grpc.RpcError as error:
                return error.code() is not grpc.StatusCode.UNAUTHENTICATED
            return True

        def is_known_beside_the_old(token: str) -> bool:
            assert is_known("old")
            return is_known(token)

        with tokens.open("w", buffering=1) as writing:
            assert is_known("old")  # while the file is empty
            writing.write("old\nnew\n")
        wait_for(lambda: is_known_beside_the_old("new"))
    assert server.terminate() == 0
