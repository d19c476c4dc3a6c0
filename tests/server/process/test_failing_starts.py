"""A server process that cannot start, or only without some models: one line with the reason."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import grpc
import onnx
import pytest
from octofold_proto.octofold.v1 import inference_pb2 as pb
from support.served import ask, boards_of, stub_of, versions
from support.servers import Start, WriteVersion

NO_PLACE_FOR_SOCKETS = """
import sys, tempfile
from octofold_server.cli import main
from octofold_server.system import sockets
tempfile.tempdir, sockets.OTHER_PARENTS = "/nowhere", ()
sys.exit(main())
"""


def test_broken_models_are_listed_with_the_reason_and_do_not_affect_the_others(
    write_version: WriteVersion, start_server: Start, graph: bytes
) -> None:
    write_version()
    (write_version(name="altered") / "model.onnx").write_bytes(graph + b"\0")
    write_version(name="truncated", model=graph[: len(graph) // 2])
    (write_version(name="missing") / "model.onnx").unlink()
    (write_version(name="cardless") / "card.json").unlink()
    (write_version(name="scribbled") / "card.json").write_text("{", encoding="utf-8")
    renamed = onnx.load_from_string(graph)
    renamed.graph.output[0].name = renamed.graph.node[-1].output[0] = "answer"
    write_version(name="renamed", model=renamed.SerializeToString())
    write_version(name="elsewhere", precisions={"fp32": {"file": "../../x", "sha256": "0" * 64}})
    write_version(name="above", precisions={"fp32": {"file": "..", "sha256": "0" * 64}})
    write_version(name="nul", precisions={"fp32": {"file": "a\0b", "sha256": "0" * 64}})
    (write_version(name="nested") / "card.json").write_text("[" * 100_000, encoding="utf-8")
    reasons = {
        "altered": "SHA-256",
        "truncated": "cannot load the graph",
        "missing": "No such file",
        "cardless": "No such file",
        "scribbled": "not JSON",
        "renamed": "graph contract",
        "elsewhere": "not a file name",
        "above": "not a file name",
        "nul": "not a file name",
        "nested": "not JSON",
    }
    server = start_server("--default-model", "tiny")
    with stub_of(server.target) as stub:
        known = versions(stub)
        for name, reason in reasons.items():
            assert known[name, "1"].state == pb.ModelVersion.STATE_FAILED
            assert reason in known[name, "1"].reason
            with pytest.raises(grpc.RpcError) as failure:
                ask(stub, boards_of(1), model=name)
            assert failure.value.code() == grpc.StatusCode.NOT_FOUND
        ask(stub, boards_of(1))


@pytest.mark.parametrize(
    ("prepare", "arguments", "message"),
    [
        (lambda write: write(), ("--tokens", "/nowhere"), "/nowhere cannot be read: No such file"),
        (
            lambda write: write(model=b"not a graph"),
            (),
            "tiny/1: model.onnx: onnxruntime cannot load",
        ),
        (
            lambda write: (write(), write(name="broken", model=b"not a graph")),
            ("--default-model", "broken"),
            "--default-model 'broken' cannot be served; ready models: tiny",
        ),
        (
            lambda write: write(model=b"not a graph"),
            ("--default-model", "nobody"),
            "--default-model must be one of tiny, got 'nobody'",
        ),
        (lambda write: write(), ("--models", "/nowhere"), "cannot read the model repository /nowhere"),
        (lambda write: write(), ("--host", ".."), "cannot listen on ..:0: '..' is not the name of a host"),
        (
            lambda write: write(),
            ("--transport", "direct", "--host", "127.1"),
            "cannot listen on 127.1:0: gRPC cannot bind it",
        ),
    ],
)
def test_a_server_without_a_model_fails_with_one_line(
    write_version: WriteVersion, start_server: Start, prepare: Any, arguments: tuple[str, ...], message: str
) -> None:
    prepare(write_version)
    server = start_server(*arguments, ready=False)
    assert server.wait() == 1
    assert "Traceback" not in server.log
    assert message in server.log.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "file", "reason"),
    [
        (("--port-file",), "/nowhere/file", "No such file or directory"),
        (("--ready-file",), "/dev", "Is a directory"),
        (("--processes", "2", "--rest-port", "0", "--rest-port-file"), "/dev", "Is a directory"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_models_are_loaded(
    write_version: WriteVersion, start_server: Start, arguments: tuple[str, ...], file: str, reason: str
) -> None:
    write_version()
    server = start_server(*arguments, file, ready=False)
    assert server.wait() == 1
    (line,) = server.log.splitlines()
    assert f"file {file}: {reason}" in line


@pytest.mark.parametrize("arguments", [("--transport", "auto"), ("--processes", "2")])
def test_a_server_without_a_folder_for_sockets_fails_with_one_line_about_folders(
    write_version: WriteVersion, start_server: Start, arguments: tuple[str, ...]
) -> None:
    write_version()
    server = start_server(*arguments, ready=False, program=("-c", NO_PLACE_FOR_SOCKETS))
    assert server.wait() == 1
    (line,) = server.log.splitlines()
    assert line.startswith("octofold-serve: cannot make a folder for the server's own sockets in TMPDIR")


def test_a_port_in_use_gives_a_one_line_error(write_version: WriteVersion, start_server: Start) -> None:
    write_version()
    first = start_server()
    second = start_server("--port", first.target.rpartition(":")[2], ready=False)
    assert second.wait() == 1
    assert second.log.splitlines() == [
        f"octofold-serve: cannot listen on {first.target}: Address already in use"
    ]
    assert not second.port_file.exists()


def test_without_the_extra_one_line_says_what_to_install() -> None:
    missing = "onnxruntime"
    program = (
        f"import sys, threading; sys.modules[{missing!r}] = None; "
        "from octofold_server.cli import main; code = main([]); "
        "print(*[thread.name for thread in threading.enumerate()]); sys.exit(code)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.startswith(f"octofold-serve: {missing}")
    assert " is missing; install it with: " in run.stderr
    assert run.stderr.rstrip("'\n").endswith("[server]")
    assert run.stdout == "MainThread log\n"
    assert run.stderr.count("\n") == 1
