"""Compares all models of a repository by strength, boards/s, latency of a single board, and memory.

    python bench/serving/models.py

Each model has its own server for half a minute. It gets packed calls, two in flight, and then one board at a
time. The boards come from games that swift plays. The strength comes from the card. The memory is that of the
server after the calls.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import grpc
import numpy as np
import psutil
from octofold_client import Client
from octofold_client.rpc.local_server import LocalServer
from octofold_game.contract.model import read_card
from octofold_game.episodes import Episodes
from octofold_game.system.processors import usable_cores
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from searches import Boards, served_packed

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from harness import milliseconds, new_parser, newest_version, report

PLAYER, GAMES, MOVES = "swift", 16, 1_500
NONE = 999_999_999
"""A version number that no model has."""
LONE = 500
"""Number of calls with one board, enough for a p99."""


def played(client: Client) -> Boards:
    """Return boards `[N, 16]` of games, in random order."""
    episodes, seen = Episodes(0, range(GAMES)), list[Boards]()
    for _ in range(MOVES):
        if not len(episodes.boards):
            break
        seen.append(episodes.boards.copy())
        episodes.step(client.next_moves(episodes.boards, model=PLAYER).moves)
    return np.random.default_rng(0).permutation(np.concatenate(seen))


def lone_ms(stub: OctofoldServiceStub, model: str, boards: Boards) -> tuple[float, float]:
    """Return the median and the 99th percentile of the milliseconds that a call for one board takes."""
    chosen = np.resize(boards, (LONE, 16))
    requests = [pb.NextMovesRequest(model=model, boards=board.tobytes()) for board in chosen]
    taken = milliseconds([partial(stub.NextMoves, request) for request in requests])
    median, p99 = np.percentile(taken, [50, 99])
    return float(median), float(p99)


def measured(models: Path, model: str, boards: Boards, seconds: float) -> dict[str, float]:
    """Return the figures of a model's newest version, served alone."""
    alone = ("--default-model", model, "--versions", f"{NONE};{model}=latest:1")
    with LocalServer(models, alone) as server, grpc.insecure_channel(server.target) as channel:
        stub = OctofoldServiceStub(channel)
        rate = served_packed(stub, model, boards[:256])
        some = boards[: max(64, min(len(boards), int(rate * seconds / 3)))]
        rates = [served_packed(stub, model, some) for _ in range(3)]
        median, p99 = lone_ms(stub, model, boards)
        assert server.pid is not None
        processes = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        memory = sum(process.memory_info().rss for process in processes) / 1e6
    return {
        "boards_per_second": float(np.median(rates)),
        "p50_ms": median,
        "p99_ms": p99,
        "memory_mb": memory,
    }


def main() -> None:
    """Run the benchmark."""
    parser = new_parser(__doc__)
    parser.add_argument("--models", type=Path, default=Path("models"), help="repository (default: models)")
    parser.add_argument(
        "--seconds", type=float, default=9, help="length of the packed calls in seconds (default: 9)"
    )
    arguments = parser.parse_args()
    names = sorted({card.parts[-3] for card in arguments.models.glob("*/*/card.json")})
    with (
        LocalServer(arguments.models, ("--default-model", PLAYER)) as server,
        Client(server.target) as client,
    ):
        boards = played(client)
    figures, rows = {}, []
    for name in names:
        card = read_card(newest_version(arguments.models, name))
        found = figures[name] = measured(arguments.models, name, boards, arguments.seconds)
        average = "" if card.strength is None else f"{card.strength.average:,.0f}"
        speed, lone = f"{found['boards_per_second']:,.0f}", f"{found['p50_ms']:.2f} / {found['p99_ms']:.2f}"
        rows.append((name, average, speed, lone, f"{found['memory_mb']:,.0f}"))
    report(
        "models",
        ("model", "average score", "boards/s", "a lone board, p50 / p99 in ms", "memory, MB"),
        rows,
        cores=usable_cores(),
        models=figures,
    )


if __name__ == "__main__":
    main()
