"""A server process with --verify-models: what it serves, what it says, and what it needs."""

import signal
import subprocess
import sys
from pathlib import Path

import grpc
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.served import ask, boards_of
from support.servers import Start, WriteVersion
from support.signing import new_keys
from support.waiting import wait_for


def test_a_flipped_byte_is_refused_at_a_reload_while_the_old_version_goes_on(
    write_version: WriteVersion, start_server: Start, tmp_path: Path
) -> None:
    keys = new_keys(tmp_path, "release")
    signed, other = write_version(), write_version("unsigned")
    keys.sign(signed)
    server = start_server("--verify-models", str(keys.public))
    wait_for(lambda: f"only those that a key in {keys.public} signed" in server.log)
    assert "unsigned/1 cannot be served: card.json.sig is missing: the version is not signed" in server.log
    with grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        before = ask(stub, boards_of(5))
        content = (signed / "model.onnx").read_bytes()
        (signed / "model.onnx").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        card = (signed / "card.json").read_text()
        (signed / "card.json").write_text(f"{card}\n")  # loads the version again
        keys.sign(signed)
        keys.sign(other)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "unsigned/1 is ready" in server.log)
        assert "tiny/1 cannot be served: model.onnx does not match the card" in server.log
        assert (ask(stub, boards_of(5), model="tiny") == before).all()
    assert server.terminate() == 0


def failing(code: str, *arguments: str) -> str:
    """The line with which a server ends."""
    program = f"{code}; import sys; from octofold_server.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "--port", "0", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    (line,) = run.stderr.splitlines()
    return line


def test_without_the_extra_signing_is_refused_in_one_line(
    write_version: WriteVersion, tmp_path: Path
) -> None:
    write_version()
    flags = ("--models", str(tmp_path / "models"), "--verify-models", "any.pub")
    line = failing("import sys; sys.modules['cryptography'] = None", *flags)
    assert line.startswith("octofold-serve: cryptography")
    assert " is missing; install it with: " in line
    assert "[signing]" in line
