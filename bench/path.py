"""The way of one board through the server: how often it passes from one file to another.

    python bench/path.py --model flagship

Starts a server in this process, watches every call of a Python function in it (`sys.setprofile`), and asks
for one move at a time over each protocol. It counts how often a function of this project is called that
stands in another file than the one called before it; `--show` prints these files and functions in order.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from octofold_server.config.options import Config
from octofold_server.system.grpc_core import read_where_calls_are_awaited

ROOT = Path(__file__).parents[1]
BOARD = [7, 6, 5, 4, 1, 2, 3, 2, 0, 1, 2, 1, 0, 0, 1, 0]
CALLS = 20
"""Calls of each kind; the way that most of them take counts, so that a background thread does not."""


class Watch:
    """While it is on, records every function of this project that any thread calls, and its file."""

    def __init__(self) -> None:
        self.is_on = False
        self.steps: list[tuple[str, str]] = []
        self._names: dict[str, str] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if self.is_on and event == "call" and (name := self._name(frame.f_code.co_filename)):
            self.steps.append((name, frame.f_code.co_qualname))

    def _name(self, file: str) -> str:
        if file not in self._names:
            path = Path(file)
            known = path.is_relative_to(ROOT) and ".venv" not in path.parts and path != Path(__file__)
            self._names[file] = "/".join(path.relative_to(ROOT).parts[1:]) if known else ""
        return self._names[file]


def changes(steps: list[tuple[str, str]]) -> int:
    """How often the file changes from one step to the next."""
    return sum(before != after for (before, _), (after, _) in pairwise(steps))


def call_when_told(target: str, rest_port: int, model: str) -> None:
    """In a process of its own: make one call for each line that comes, and say when it is answered."""
    import grpc
    from octofold_proto.inference import grpc_service_pb2 as oip
    from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
    from octofold_proto.octofold.v1 import inference_pb2 as pb
    from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub

    channel = grpc.insecure_channel(target)
    octofold, inference = OctofoldServiceStub(channel), GRPCInferenceServiceStub(channel)
    tensor = oip.ModelInferRequest.InferInputTensor(name="boards", datatype="UINT8", shape=[1, 16])
    infer = oip.ModelInferRequest(model_name=model, inputs=[tensor], raw_input_contents=[bytes(BOARD)])
    body = {"inputs": [{"name": "boards", "datatype": "UINT8", "shape": [1, 16], "data": BOARD}]}

    def rest() -> None:
        url = f"http://127.0.0.1:{rest_port}/v2/models/{model}/infer"
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())).read()

    calls: dict[str, Callable[[], object]] = {
        "NextMove": lambda: octofold.NextMove(pb.NextMoveRequest(model=model, board=BOARD)),
        "NextMoves": lambda: octofold.NextMoves(pb.NextMovesRequest(model=model, boards=bytes(BOARD))),
        "ModelInfer": lambda: inference.ModelInfer(infer),
        "REST": rest,
    }
    for line in sys.stdin:
        calls[line.strip()]()
        print("answered", flush=True)


def ask(watch: Watch, caller: Any, kind: str) -> list[tuple[str, str]]:
    """The steps of one call of that kind."""
    watch.steps.clear()
    watch.is_on = True
    caller.stdin.write(f"{kind}\n")
    caller.stdin.flush()
    caller.stdout.readline()
    time.sleep(0.01)  # for what is done after the reply
    watch.is_on = False
    return list(watch.steps)


def measure(watch: Watch, port_file: Path, rest_port_file: Path, arguments: argparse.Namespace) -> None:
    """Print the way of each kind of call, once the server is ready; then end it."""
    import subprocess

    while not port_file.exists():
        time.sleep(0.05)
    target, rest_port = f"127.0.0.1:{port_file.read_text().strip()}", rest_port_file.read_text().strip()
    command = [sys.executable, __file__, "--model", arguments.model, "--call", target, rest_port]
    counts = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as caller:
        for kind in ("NextMove", "NextMoves", "ModelInfer", "REST"):
            ways = [ask(watch, caller, kind) for _ in range(CALLS)][1:]  # the first one loads and connects
            way = sorted(ways, key=changes)[len(ways) // 2]
            counts[kind] = changes(way)
            print(f"{kind}: {changes(way)} changes of file, {len(way)} calls")
            for file, function in way if arguments.show else ():
                print(f"    {file}: {function}")
        assert caller.stdin is not None
        caller.stdin.close()
    print(json.dumps({"bench": "path", "model": arguments.model, "changes": counts}))
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="flagship", help="model to ask (default: flagship)")
    parser.add_argument("--show", action="store_true", help="print every file of each way")
    parser.add_argument("--call", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.call:
        call_when_told(arguments.call[0], int(arguments.call[1]), arguments.model)
        return
    watch = Watch()
    threading.setprofile(watch)
    sys.setprofile(watch)
    read_where_calls_are_awaited()
    from octofold_server.process.lifecycle import serve  # which loads gRPC

    with tempfile.TemporaryDirectory() as folder:
        port_file, rest_port_file = Path(folder) / "port", Path(folder) / "rest-port"
        config = Config(
            models=ROOT / "models",
            port=0,
            rest_port=0,
            port_file=port_file,
            rest_port_file=rest_port_file,
            grace=0,
        )
        measuring = threading.Thread(target=measure, args=(watch, port_file, rest_port_file, arguments))
        measuring.start()
        serve(config)
        measuring.join()


if __name__ == "__main__":
    main()
