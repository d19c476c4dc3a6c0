"""Files of the repository that change, or are not regular files, while a server reads them: it continues to
serve."""

from __future__ import annotations

import os
import queue
from pathlib import Path

import grpc
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.served import stub_of
from support.servers import Start, WriteVersion
from support.waiting import wait_for

BOARD = pb.NextMoveRequest(board=[1] * 16)


def test_a_version_with_a_pipe_as_a_file_is_not_served_but_the_others_are(
    write_version: WriteVersion, start_server: Start
) -> None:
    write_version()
    files = ("card.json", "model.onnx")
    for version, file in enumerate(files, start=2):
        folder = write_version("tiny", version)
        (folder / file).unlink(missing_ok=True)
        os.mkfifo(folder / file)
    server = start_server()
    with stub_of(server.target) as stub:
        (model,) = stub.ListModels(pb.ListModelsRequest()).models
        reasons = {status.version: status.reason for status in model.versions}
        for version, file in enumerate(files, start=2):
            assert reasons[str(version)] == f"{file} cannot be read: it is not a regular file"
        assert stub.NextMove(BOARD).version == "1"
    assert server.terminate() == 0


def test_circular_links_devices_and_huge_version_numbers_hide_no_model(
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
    with stub_of(server.target) as stub:
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
        (("--tls-certificate", "{pipe}", "--tls-key", "{pipe}"), 1),
    ],
)
def test_a_pipe_as_the_value_of_a_flag_gives_a_one_line_error(
    write_version: WriteVersion, start_server: Start, tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    write_version()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    server = start_server(*(argument.format(pipe=pipe) for argument in arguments), ready=False)
    assert server.wait() == code
    assert server.log == f"octofold-serve: {pipe} cannot be read: it is not a regular file\n"


@pytest.mark.parametrize("transport", ["native", "direct"])
def test_revoking_a_token_ends_only_its_open_streams(
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


def test_rewriting_a_token_file_in_place_keeps_its_tokens_valid(
    write_version: WriteVersion, start_server: Start, tmp_path: Path
) -> None:
    write_version()
    tokens = tmp_path / "tokens"
    tokens.write_text("old\n")
    server = start_server("--tokens", str(tokens))
    with stub_of(server.target) as stub:

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
