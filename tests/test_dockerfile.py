"""The Dockerfile, carried out without Docker: its commands in a clean folder, with what .dockerignore leaves.

Nothing is installed: the packages that were copied run with those of this environment. All else is real, the
server, too.
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
from dataclasses import dataclass
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
"""By `docker stop`."""

LAST_SECONDS = 3.0
"""After the drain: for the last bytes, for whoever is loading, and for the process to end."""

SERVE = """\
#!/bin/sh
export PYTHONPATH="$PWD/proto:$PWD/game:$PWD/server:$PWD/client"
exec {python} -m octofold_server.cli "$@"
"""


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile: name and the rest, on one line each."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def only(name: str) -> str:
    """The instruction of which there is one."""
    (found,) = (rest for each, rest in instructions() if each == name)
    return found


def build_context() -> list[str]:
    """The files of this tree that .dockerignore lets through."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a clone")
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line.strip()]
    files = sorted({file for file in done.stdout.split("\0") if file and (ROOT / file).is_file()})
    return [file for file in files if not any(ignores(pattern, file) for pattern in patterns)]


def ignores(pattern: str, file: str) -> bool:
    """Whether a pattern of .dockerignore names the file or a folder that it is in."""
    parts = file.split("/")
    for depth in range(1, len(parts) + 1):
        above = parts[:depth]
        if pattern.startswith("**/"):
            above, pattern_parts = above[-1:], pattern.removeprefix("**/").split("/")
        else:
            pattern_parts = pattern.split("/")
        if len(above) == len(pattern_parts) and all(map(fnmatchcase, above, pattern_parts)):
            return True
    return False


def environment() -> dict[str, str]:
    """What ENV sets."""
    return dict(word.split("=", 1) for word in shlex.split(only("ENV")))


def test_the_image_holds_what_serving_needs_and_no_large_models() -> None:
    files = build_context()
    folders = {file.split("/")[0] for file in files if "/" in file}
    assert folders.isdisjoint({"tests", "bench", "checkpoints", "deploy", "docs", "examples", "runs"})
    assert {"proto", "game", "server", "client", "models"} <= folders
    sizes = {file: (ROOT / file).stat().st_size for file in files}
    assert max(sizes.values()) < 20e6
    assert sum(sizes.values()) < 80e6
    assert ignores("models/teacher", "models/teacher/1/model.onnx")
    assert ignores("**/__pycache__", "game/octofold_game/__pycache__/rules.pyc")
    assert not ignores("models/teacher", "models/swift/4/model.onnx")


def test_every_command_is_one_for_the_shell() -> None:
    for name, rest in instructions():
        if name == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True)
    copied = [rest.split() for name, rest in instructions() if name == "COPY"]
    files = build_context()
    for _owner, *sources, _target in copied:
        assert all(source == "." or source in files for source in sources)


def test_only_what_says_which_packages_to_install_comes_before_they_are_installed() -> None:
    lines = instructions()
    installs = next(n for n, (name, rest) in enumerate(lines) if name == "RUN" and "make setup" in rest)
    before = [rest.split()[1:-1] for name, rest in lines[:installs] if name == "COPY"]
    assert before == [["Makefile", "pyproject.toml", "constraints.txt"]]


def test_grace_and_drain_are_over_before_docker_kills() -> None:
    variables = environment()
    seconds = float(variables["OCTOFOLD_GRACE"]) + float(variables["OCTOFOLD_DRAIN"])
    assert seconds + LAST_SECONDS < KILLED_AFTER_SECONDS


@dataclass
class Image:
    """What the image holds, and how a container of it starts."""

    folder: Path

    def run(self, **variables: str) -> subprocess.Popen[bytes]:
        """Start a container: the entry point with the image's variables and others."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OCTOFOLD_")}
        kept.pop("PYTHONPATH", None)
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                json.loads(only("ENTRYPOINT")),
                cwd=self.folder,
                env={**kept, **environment(), **variables},
                stderr=log,
            )

    def is_healthy(self, ready_file: Path) -> bool:
        """What the image's health check says."""
        command = only("HEALTHCHECK").partition("CMD ")[2]
        variables = {**os.environ, "OCTOFOLD_READY_FILE": str(ready_file)}
        return subprocess.run(["sh", "-c", command], env=variables, stderr=subprocess.DEVNULL).returncode == 0


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """What the Dockerfile copies, and the server's command as the environment has it."""
    folder = tmp_path / "app"
    for file in build_context():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, folder / file)
    command = folder / ".venv" / "bin" / "octofold-serve"
    command.parent.mkdir(parents=True)
    command.write_text(SERVE.format(python=shlex.quote(sys.executable)))
    command.chmod(0o755)
    for model in (folder / "models").iterdir():
        if model.name not in ("flagship", "swift"):  # the others take seconds to load
            shutil.rmtree(model)
    return Image(folder)


@pytest.fixture
def container(image: Image, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """A running one: the process, the server's address, and the file that tells its health."""
    ready_file, port_file = tmp_path / "ready", tmp_path / "port"
    assert not image.is_healthy(ready_file)
    process = image.run(
        OCTOFOLD_PORT="0",
        OCTOFOLD_REST_PORT="0",
        OCTOFOLD_PORT_FILE=str(port_file),
        OCTOFOLD_READY_FILE=str(ready_file),
    )
    try:
        wait_for(lambda: port_file.exists() and image.is_healthy(ready_file), process=process)
        yield process, f"127.0.0.1:{port_file.read_text().strip()}", ready_file
    finally:
        process.kill()
        process.wait()


def test_a_container_serves_warns_lets_nobody_load_and_stops_whoever_listens(
    image: Image, container: tuple[subprocess.Popen[bytes], str, Path]
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
    assert not image.is_healthy(ready_file)
    log = (image.folder / "log").read_text()
    assert "everyone who can reach [::]:" in log
    assert "load and unload" not in log
    assert "is not a variable" not in log


def test_a_file_that_nobody_touches_any_more_is_no_health(image: Image, tmp_path: Path) -> None:
    file = tmp_path / "ready"
    file.touch()
    assert image.is_healthy(file)
    old = time.time() - 30
    os.utime(file, (old, old))
    assert not image.is_healthy(file)
