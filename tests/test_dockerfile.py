"""The commands of the Dockerfile, run without Docker in a clean folder with the files that .dockerignore
allows.

Nothing is installed: the copied packages run in this environment. Everything else is real, including the
server.
"""

from __future__ import annotations

import json
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import grpc
import numpy as np
import pytest
from octofold_client import Client
from octofold_proto.inference import grpc_service_pb2 as oip
from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.waiting import wait_for

ROOT = Path(__file__).parents[1]
KILLED_AFTER_SECONDS = 10.0
"""`docker stop` kills a container after this time."""

LAST_SECONDS = 3.0
"""Time after the drain: for the last bytes, for a load in progress, and for the end of the process."""

SERVE = """\
#!/bin/sh
export PYTHONPATH="$PWD/proto:$PWD/game:$PWD/server:$PWD/client"
exec {python} -m octofold_server.cli "$@"
"""


def instructions() -> list[tuple[str, str]]:
    """Yield the instructions of the Dockerfile as pairs of name and arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def only(name: str) -> str:
    """Return the only instruction of this name."""
    (found,) = (rest for each, rest in instructions() if each == name)
    return found


def build_context() -> list[str]:
    """Return the files of this repository that .dockerignore allows."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a clone")
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line.strip()]
    files = sorted({file for file in done.stdout.split("\0") if file and (ROOT / file).is_file()})
    return [file for file in files if not any(ignores(pattern, file) for pattern in patterns)]


def ignores(pattern: str, file: str) -> bool:
    """Return whether a pattern of .dockerignore matches a file or one of its folders."""
    parts, inside = file.split("/"), pattern.removeprefix("**/").split("/")
    if pattern.startswith("**/"):
        return inside[0] in parts
    return len(parts) >= len(inside) and all(map(fnmatchcase, parts, inside))


def environment() -> dict[str, str]:
    """Return the variables that ENV sets."""
    return dict(word.split("=", 1) for word in shlex.split(only("ENV")))


def test_the_image_contains_what_serving_needs_and_no_large_models() -> None:
    files = build_context()
    folders = {file.split("/")[0] for file in files if "/" in file}
    assert folders.isdisjoint({"tests", "bench", "checkpoints", "deploy", "docs", "examples", "runs"})
    assert {"proto", "game", "server", "client", "models"} <= folders
    sizes = {file: (ROOT / file).stat().st_size for file in files}
    assert max(sizes.values()) < 20e6
    assert sum(sizes.values()) < 90e6


def test_grace_and_drain_are_over_before_docker_kills() -> None:
    variables = environment()
    seconds = float(variables["OCTOFOLD_GRACE"]) + float(variables["OCTOFOLD_DRAIN"])
    assert seconds + LAST_SECONDS < KILLED_AFTER_SECONDS


def is_healthy(ready_file: Path) -> bool:
    """Return the result of the image's health check."""
    command = only("HEALTHCHECK").partition("CMD ")[2]
    variables = {**os.environ, "OCTOFOLD_READY_FILE": str(ready_file)}
    return subprocess.run(["sh", "-c", command], env=variables, stderr=subprocess.DEVNULL).returncode == 0


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A folder with the files that the Dockerfile copies, and this environment's server command."""
    folder = tmp_path / "app"
    for file in build_context():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, folder / file)
    command = folder / ".venv" / "bin" / "octofold-serve"
    command.parent.mkdir(parents=True)
    command.write_text(SERVE.format(python=shlex.quote(sys.executable)))
    command.chmod(0o755)
    for model in (folder / "models").iterdir():
        if model.name not in ("flagship", "swift"):  # other models take seconds to load
            shutil.rmtree(model)
    return folder


@pytest.fixture
def container(image: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """A running container: the process, the server's address, and its ready file."""
    ready_file, port_file = tmp_path / "ready", tmp_path / "port"
    assert not is_healthy(ready_file)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OCTOFOLD_", "PYTHON"))}
    files = {"OCTOFOLD_PORT_FILE": str(port_file), "OCTOFOLD_READY_FILE": str(ready_file)}
    variables = {**kept, **environment(), **files, "OCTOFOLD_PORT": "0", "OCTOFOLD_REST_PORT": "0"}
    with (image / "log").open("wb") as log:
        process = subprocess.Popen(json.loads(only("ENTRYPOINT")), cwd=image, env=variables, stderr=log)
    try:
        wait_for(lambda: port_file.exists() and is_healthy(ready_file), process=process)
        yield process, f"127.0.0.1:{port_file.read_text().strip()}", ready_file
    finally:
        process.kill()
        process.wait()


def test_a_container_serves_warns_refuses_to_load_models_and_stops_with_an_open_stream(
    image: Path, container: tuple[subprocess.Popen[bytes], str, Path]
) -> None:
    process, target, ready_file = container
    with Client(target) as client:
        answer = client.next_move(np.array([7, 6, 5, 4, 1, 2, 3, 2, 0, 1, 2, 1, 0, 0, 1, 0], np.uint8))
        assert answer.model == "flagship"
    with grpc.insecure_channel(target) as channel:
        unload = GRPCInferenceServiceStub(channel).RepositoryModelUnload
        with pytest.raises(grpc.RpcError) as refused:
            unload(oip.RepositoryModelUnloadRequest(model_name="swift"))
        assert refused.value.code() in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED)
        requests: queue.SimpleQueue[pb.StreamNextMovesRequest | None] = queue.SimpleQueue()  # none comes
        idle = OctofoldServiceStub(channel).StreamNextMoves(iter(requests.get, None))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        requests.put(None)
        idle.cancel()
    assert not is_healthy(ready_file)
    log = (image / "log").read_text()
    assert "everyone who can reach [::]:" in log
    assert "load and unload" not in log
    assert "is not a variable" not in log


def test_the_container_is_unhealthy_if_the_ready_file_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "ready"
    file.touch()
    assert is_healthy(file)
    old = time.time() - 30
    os.utime(file, (old, old))
    assert not is_healthy(file)
