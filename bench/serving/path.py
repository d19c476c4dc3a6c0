"""Counts how often a board passes from one file to another on its way through the server, and the client.

    python bench/serving/path.py --model flagship

The script starts a server in this process, observes every call of a Python function (`sys.setprofile`), and
asks for one move at a time over each protocol. It counts the calls of this project's functions that are in
another file than the function called before. `octofold evaluate` does the same in a process of its own, for
each answer on which no game ends. `--show` prints these files and functions in order.
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
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from octofold_game.contract.graph import BOARDS
from octofold_server.config.options import Config
from octofold_server.system.grpc_core import read_where_calls_are_awaited

ROOT = Path(__file__).parents[2]
BOARD = [7, 6, 5, 4, 1, 2, 3, 2, 0, 1, 2, 1, 0, 0, 1, 0]
REPLY = "DirectRpc.reply"
CALLS = 20
"""Calls of each kind, and answers of an evaluation. The least counts: other threads only add."""


class Watch:
    """A profile function that records, while it is on, this project's functions in the order of their calls.

    Attributes:
        is_on: whether calls are recorded.
        steps: file and function of each call, in order.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.steps: list[tuple[str, str]] = []
        self._names: dict[str, str] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Record a call; this is the signature that `sys.setprofile` asks for."""
        if self.is_on and event == "call" and (name := self._name(frame.f_code.co_filename)):
            self.steps.append((name, frame.f_code.co_qualname))

    def _name(self, file: str) -> str:
        if file not in self._names:
            path = Path(file)
            known = path.is_relative_to(ROOT) and ".venv" not in path.parts and path != Path(__file__)
            self._names[file] = "/".join(path.relative_to(ROOT).parts[1:]) if known else ""
        return self._names[file]


def changes(steps: list[tuple[str, str]]) -> int:
    """The number of steps whose file differs from the one before."""
    return sum(before != after for (before, _), (after, _) in pairwise(steps))


def call_on_request(target: str, rest_port: int, model: str) -> None:
    """Make one call for each line of standard input, and print a line when it is answered.

    This runs in a separate process, so that its calls are not counted.
    """
    import grpc
    from octofold_proto.inference import grpc_service_pb2 as oip
    from octofold_proto.inference.grpc_service_pb2_grpc import GRPCInferenceServiceStub
    from octofold_proto.octofold.v1 import inference_pb2 as pb
    from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub

    channel = grpc.insecure_channel(target)
    octofold, inference = OctofoldServiceStub(channel), GRPCInferenceServiceStub(channel)
    tensor = oip.ModelInferRequest.InferInputTensor(name=BOARDS.name, datatype="UINT8", shape=[1, 16])
    infer = oip.ModelInferRequest(model_name=model, inputs=[tensor], raw_input_contents=[bytes(BOARD)])
    body = {"inputs": [{"name": BOARDS.name, "datatype": "UINT8", "shape": [1, 16], "data": BOARD}]}

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


def evaluate(target: str, model: str) -> None:
    """Play some games against a server, and print the steps from each answer to the next one as JSON."""
    watch = Watch()
    threading.setprofile(watch)
    sys.setprofile(watch)
    from octofold_client.cli.command_line import main

    def answers() -> list[int]:
        return [
            number
            for number, (file, function) in enumerate(watch.steps)
            if file.endswith("lockstep.py") and function == "play"
        ]

    def stop_later() -> None:
        while len(answers()) < CALLS:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt, SystemExit):
        flags = ["--target", target, "--model", model, "--games", "4", "--out", folder]
        threading.Thread(target=stop_later, daemon=True).start()
        watch.is_on = True
        main(["evaluate", *flags])
    watch.is_on = False
    print(json.dumps([watch.steps[begin : end + 1] for begin, end in pairwise(answers()[1:])]))


def ask(watch: Watch, caller: Any, kind: str) -> list[tuple[str, str]]:
    """Have `caller` make one call of a kind, and return the steps of the server."""
    watch.steps.clear()
    watch.is_on = True
    caller.stdin.write(f"{kind}\n")
    caller.stdin.flush()
    if not caller.stdout.readline():
        raise RuntimeError(f"{kind} was not answered")
    time.sleep(0.01)  # the server also works after the reply
    watch.is_on = False
    return list(watch.steps)


def measure(watch: Watch, port_file: Path, rest_port_file: Path, arguments: argparse.Namespace) -> None:
    """Wait until the server is ready, and print the path of each kind of call."""
    import subprocess

    while not port_file.exists():
        time.sleep(0.05)
    target, rest_port = f"127.0.0.1:{port_file.read_text().strip()}", rest_port_file.read_text().strip()
    command = [sys.executable, __file__, "--model", arguments.model, "--call", target, rest_port]
    counts = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as caller:
        for kind in ("NextMove", "NextMoves", "ModelInfer", "REST"):
            calls = [ask(watch, caller, kind) for _ in range(CALLS)][1:]  # the first one connects
            counts[kind] = show_shortest(kind, [until_reply(call) for call in calls], arguments.show)
        assert caller.stdin is not None
        caller.stdin.close()
    played = subprocess.run([*command, "--evaluate"], stdout=subprocess.PIPE, text=True, check=True)
    counts["evaluate"] = show_shortest("evaluate", json.loads(played.stdout), arguments.show)
    print(json.dumps({"benchmark": "path", "model": arguments.model, "changes": counts}))


def until_reply(steps: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The steps until gRPC gets the reply. What threads do after it may come in any order."""
    functions = [function for _, function in steps]
    return steps[: functions.index(REPLY) + 1] if REPLY in functions else steps


def show_shortest(kind: str, paths: list[list[tuple[str, str]]], all_steps: bool) -> int:
    """Print the path with the fewest changes of file, with all its steps if wanted; return their number."""
    path = min(paths, key=lambda steps: (changes(steps), len(steps)))
    print(f"{kind}: {changes(path)} changes of file, {len(path)} calls")
    for file, function in path if all_steps else ():
        print(f"    {file}: {function}")
    return changes(path)


def measure_and_stop(*arguments: Any) -> None:
    """Do what `measure` does, then stop the server, whatever happened."""
    try:
        measure(*arguments)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="flagship", help="model to ask (default: flagship)")
    parser.add_argument("--show", action="store_true", help="print every function on each path")
    parser.add_argument("--call", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--evaluate", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.evaluate:
        evaluate(arguments.call[0], arguments.model)
        return
    if arguments.call:
        call_on_request(arguments.call[0], int(arguments.call[1]), arguments.model)
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
        # A daemon, as it waits for ever for a server that does not start.
        measuring = threading.Thread(
            target=measure_and_stop, args=(watch, port_file, rest_port_file, arguments), daemon=True
        )
        measuring.start()
        serve(config)
        measuring.join()


if __name__ == "__main__":
    main()
