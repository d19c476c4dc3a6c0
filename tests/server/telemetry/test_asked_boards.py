"""The boards that callers ask about, kept in files: all of them, within bounds, and no call waits for it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_export.checks.recording import read_boards
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.telemetry.asked_boards import FILE_BOARDS, MAX_UNWRITTEN, AskedBoards
from support.servers import Start, WriteVersion
from support.waiting import wait_for

LIMIT_SECONDS = 60.0
FILE_BYTES = FILE_BOARDS * 16 + 128
"""With the header of .npy."""


@contextmanager
def collected(folder: Path, most_bytes: int = 100 * FILE_BYTES) -> Iterator[AskedBoards]:
    boards = AskedBoards(folder, most_bytes)
    try:
        yield boards
    finally:
        boards.close(LIMIT_SECONDS)


def numbered(first: int, count: int) -> NDArray[np.uint8]:
    """Boards that hold their number in the first eight cells."""
    boards = np.zeros((count, 16), np.uint8)
    boards[:, :8] = np.arange(first, first + count, dtype=np.uint64).view(np.uint8).reshape(count, 8)
    return boards


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.npy"))


def contents(folder: Path) -> NDArray[np.uint8]:
    return np.concatenate([np.load(file) for file in files_of(folder)])


def test_every_board_is_kept_once_and_in_order(tmp_path: Path) -> None:
    sizes = [1, 100, FILE_BOARDS, 7, FILE_BOARDS - 1, 1, 1]
    with collected(tmp_path) as boards:
        for first, count in zip(np.cumsum([0, *sizes]), sizes, strict=False):
            boards.add(numbered(int(first), count))
    np.testing.assert_array_equal(contents(tmp_path), numbered(0, sum(sizes)))


def test_the_oldest_files_leave_when_the_folder_is_full(tmp_path: Path) -> None:
    other = tmp_path / "another.npy"
    np.save(other, numbered(0, 1))
    with collected(tmp_path, 2 * FILE_BYTES) as boards:
        for number in range(5):
            newest = numbered(number * FILE_BOARDS, FILE_BOARDS)
            boards.add(newest)
            wait_for(lambda newest=newest: is_kept(tmp_path, newest))  # type: ignore[misc]  # mypy's
    other.unlink()  # was left alone
    assert sum(file.stat().st_size for file in files_of(tmp_path)) <= 2 * FILE_BYTES
    np.testing.assert_array_equal(contents(tmp_path), numbered(3 * FILE_BOARDS, 2 * FILE_BOARDS))


def is_kept(folder: Path, boards: NDArray[np.uint8]) -> bool:
    files = list(folder.glob("asked-*.npy"))
    return bool(files) and np.array_equal(np.load(max(files)), boards)


def test_boards_that_cannot_be_written_are_counted_and_later_ones_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "asked"
    with collected(folder) as boards:
        shutil.rmtree(folder)
        boards.add(numbered(0, FILE_BOARDS))
        wait_for(lambda: f"{FILE_BOARDS} boards were asked about but not written" in caplog.text)
        folder.mkdir()
        boards.add(numbered(9, 3))
    np.testing.assert_array_equal(contents(folder), numbered(9, 3))


class SlowDisk(AskedBoards):
    """Its disk takes nothing until the event is set."""

    def __init__(self, folder: Path) -> None:
        self.is_writing = threading.Event()
        self.goes_on = threading.Event()
        super().__init__(folder, 100 * FILE_BYTES)

    def _make_room(self, size: int) -> None:
        self.is_writing.set()
        assert self.goes_on.wait(LIMIT_SECONDS)
        super()._make_room(size)


def test_a_slow_disk_costs_boards_and_not_the_time_of_calls(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    boards = SlowDisk(tmp_path)
    boards.add(numbered(0, FILE_BOARDS))
    assert boards.is_writing.wait(LIMIT_SECONDS)
    boards.add(numbered(FILE_BOARDS, (MAX_UNWRITTEN + 2) * FILE_BOARDS))  # returns while nothing is written
    boards.goes_on.set()
    boards.close(LIMIT_SECONDS)
    np.testing.assert_array_equal(contents(tmp_path), numbered(0, (1 + MAX_UNWRITTEN) * FILE_BOARDS))
    assert f"{2 * FILE_BOARDS} boards were asked about but not written" in caplog.text


def test_a_server_keeps_what_all_its_protocols_are_asked(
    write_version: WriteVersion, start_server: Start, tmp_path: Path
) -> None:
    write_version()
    folder = tmp_path / "kept" / "boards"
    server = start_server("--asked-boards", str(folder), "--grace", "0")
    many = np.random.default_rng(1).integers(1, 12, (300, 16), np.uint8)
    many[:, 3] = many[:, 2]  # each has a move
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        stub.NextMove(pb.NextMoveRequest(board=[1] * 16))
        with pytest.raises(grpc.RpcError):
            stub.NextMove(pb.NextMoveRequest(board=[99] * 16))  # refused, so not kept
        stub.NextMoves(pb.NextMovesRequest(boards=many.tobytes()))
        last = pb.StreamNextMovesRequest(request=pb.NextMovesRequest(boards=bytes([2] * 16)))
        assert len(list(stub.StreamNextMoves(iter([last])))) == 1
    assert server.terminate() == 0
    (file,) = files_of(folder)
    expected = np.concatenate([np.full((1, 16), 1), many, np.full((1, 16), 2)])
    np.testing.assert_array_equal(np.load(file), expected)
    assert len(read_boards(file, 15)) == len(expected)  # as octofold-export --boards does


def test_a_folder_that_cannot_be_written_fails_the_start(
    write_version: WriteVersion, start_server: Start, tmp_path: Path
) -> None:
    write_version()
    (tmp_path / "file").write_text("")
    server = start_server("--asked-boards", str(tmp_path / "file"), ready=False)
    assert server.wait() == 1
    assert f"cannot keep asked boards: {tmp_path / 'file'} is not a folder" in server.log
