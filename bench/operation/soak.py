"""Looks for leaks: puts a server under every kind of call for minutes or hours.

    python bench/operation/soak.py                          # ten minutes
    python bench/operation/soak.py --hours 8 --processes 2  # one of the processes is killed now and then

The load consists of valid and invalid calls, cancellations, deadlines, junk and reset connections. Meanwhile,
models are reloaded, unloaded and loaded. Each answer is compared with the answer of the idle server. The
table shows memory, threads, descriptors, queue and counts of the idle server before and after. Ctrl-C ends
the load early. The exit code is 1 if the server leaked anything or answered anything wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import grpc
import numpy as np
from numpy.typing import NDArray
from octofold_client.loadtest.boards import played_boards
from octofold_client.rpc.local_server import LocalServer
from octofold_game.contract.model import CARD_FILE
from octofold_proto import messages
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from soak_calls import KINDS, SPARE, Target
from soak_loads import (
    MEMORY_IS_RETURNED,
    Load,
    Server,
    Trouble,
    load_spare,
    problems,
    quiet_figures,
    settled_figures,
)

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import newest_version, report

PROGRESS_SECONDS = 30.0
LARGEST_EXPONENT = 15
BOARDS = 2048
CLEAR_VOTES = 4
"""Minimum lead of a move in votes. Rounding differs with the batch size and could change a closer vote."""


def main() -> int:
    """Run the benchmark; returns the exit code: 0 if no problem was found."""
    arguments = parse()
    seconds = arguments.hours * 3600 if arguments.hours else arguments.minutes * 60
    os.environ.update(MEMORY_IS_RETURNED)  # for the server
    with tempfile.TemporaryDirectory(prefix="octofold-soak-") as folder:
        models, rest_port_file = Path(folder) / "models", Path(folder) / "rest-port"
        name = newest_of(arguments.models / arguments.model, models)
        options = ("--default-model", name, "--processes", str(arguments.processes))
        rest_options = ("--rest-port", "0", "--rest-port-file", str(rest_port_file))
        with LocalServer(models, (*options, *rest_options)) as local:
            assert local.pid is not None
            boards, moves = clear_boards(local.target, arguments.seed)
            target = Target(local.target, int(rest_port_file.read_text()), name, boards, moves)
            server = Server(local.pid, target, models)
            return soak(server, seconds, arguments)


def parse() -> argparse.Namespace:
    """Read the flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the load (default: 10)")
    parser.add_argument("--hours", type=float, default=0.0, help="length in hours, instead of --minutes")
    parser.add_argument(
        "--models", type=Path, default=Path("models"), help="model repository (default: models)"
    )
    parser.add_argument("--model", default="swift", help="model to call, its newest version (default: swift)")
    parser.add_argument("--processes", type=int, default=1, help="server processes (default: 1)")
    parser.add_argument("--callers", type=int, default=2, help="threads for each kind of call (default: 2)")
    parser.add_argument(
        "--trouble-seconds", type=float, default=5.0, help="seconds between two disturbances (default: 5)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of all random choices (default: 0)")
    parser.add_argument(
        "--warm-seconds",
        type=float,
        default=20.0,
        help="load before the first figures: pools grow, and every kind of call is made (default: 20)",
    )
    return parser.parse_args()


def newest_of(source: Path, models: Path) -> str:
    """Copy the newest version of a model into a new repository, twice: as itself and as the spare model.

    Returns:
        The name of the model.
    """
    newest = newest_version(source.parent, source.name)
    for name in (source.name, SPARE):
        copy = models / name / newest.name
        shutil.copytree(newest, copy)
        card = json.loads((copy / CARD_FILE).read_text(encoding="utf-8"))
        (copy / CARD_FILE).write_text(json.dumps({**card, "name": name}), encoding="utf-8")
    return source.name


def clear_boards(target: str, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """Boards `[N, 16]` of games for which the idle server has a clear move, and these moves `[N]`."""
    boards = played_boards(LARGEST_EXPONENT, BOARDS, seed)
    request = pb.NextMovesRequest(boards=messages.BOARDS.write(boards), with_votes=True)
    with closing(grpc.insecure_channel(target)) as channel:
        reply = OctofoldServiceStub(channel).NextMoves(request, timeout=60)
    moves = messages.MOVES.read(reply.moves, len(boards))
    votes = np.sort(messages.VOTES.read(reply.votes, len(boards)).astype(int), axis=1)
    clear = votes[:, 3] - votes[:, 2] >= CLEAR_VOTES
    return boards[clear], moves[clear]


def soak(server: Server, seconds: float, arguments: argparse.Namespace) -> int:
    """Warm up, put the server under load, and report; returns the exit code."""
    troubles = Trouble.common(arguments.trouble_seconds)
    warming = Load(server, KINDS, Trouble.common(1.0), arguments.callers, arguments.seed)
    warming.start()
    print(f"warming up for {arguments.warm_seconds:.0f} s", file=sys.stderr)
    time.sleep(arguments.warm_seconds)
    warming.stop()
    load_spare(server)
    before = quiet_figures(server)
    if arguments.processes > 1:
        troubles.append(Trouble.killing(arguments.trouble_seconds))
    load = Load(server, KINDS, troubles, arguments.callers, arguments.seed + 1)
    began = time.monotonic()
    load.start()
    interrupted = False
    try:
        watch(load, began + seconds)
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted: waiting for the last calls", file=sys.stderr)
    lasted = time.monotonic() - began
    load.stop()
    load_spare(server)
    after = settled_figures(server, before)
    found = problems(load.tally, before, after)
    rows = [(name.replace("_", " "), value, asdict(after)[name]) for name, value in asdict(before).items()]
    tally = load.tally
    report(
        f"Soak of {server.target.model} for {lasted / 60:.1f} minutes",
        ("idle server", "before", "after"),
        rows,
        seconds=round(lasted),
        interrupted=interrupted,
        processes=arguments.processes,
        before=asdict(before),
        after=asdict(after),
        calls=tally.calls,
        answered=tally.answered,
        ends={f"{kind}: {code}": count for (kind, code), count in sorted(tally.ended.items())},
        done=dict(tally.done),
        without_end=tally.without_end,
        problems=found,
    )
    for problem in found:
        print(problem, file=sys.stderr)
    return int(bool(found))


def watch(load: Load, end: float) -> None:
    """Print the progress until the end."""
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, PROGRESS_SECONDS))
        print(f"{max(0, end - time.monotonic()):,.0f} s left: {load.progress()}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
