"""Compares a player behind the service with the same search called directly, in one run.

    python bench/serving/searches.py --model perimeter

It measures in turns: packed calls of many boards, two in flight; one board at a time; the delay until a
stopped search ends; and `octofold evaluate` with --model and with --player. It takes two minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import grpc
import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # contains harness.py

from client_load import evaluated
from harness import interleave, medians, milliseconds, new_parser, newest_version, report
from numpy.typing import NDArray
from octofold_client import Client
from octofold_client.contenders.local_players import local_player
from octofold_client.contenders.player_thread import PlayerThread
from octofold_client.contenders.served_model import ServedSource, select
from octofold_client.rpc.local_server import LocalServer
from octofold_game.contract.model import ServedPlayer, read_card
from octofold_game.contract.searches import Limits, Search
from octofold_game.episodes import Episodes
from octofold_game.system.processors import usable_cores
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from octofold_server.backends.players import AllowedPlayerKinds
from octofold_server.models.loading import map_files

Boards = NDArray[np.uint8]

GAMES = 32
WARM_UP_MOVES = 150
LONE = 40
"""Number of single boards in a round."""


def player_of(folder: Path) -> ServedPlayer:
    """Return the player of a version."""
    player = read_card(folder).player
    if player is None:
        raise SystemExit(f"{folder} does not contain a player")
    return player


def new_search(folder: Path) -> Search:
    """Return the search of a version, on all cores."""
    player = player_of(folder)
    search = AllowedPlayerKinds(None).search(player, map_files(folder, player), usable_cores())
    search.prepare()
    return search


def spec_of(folder: Path) -> str:
    """Return the specification of a version's player for `--player`."""
    player = player_of(folder)
    options = [f"{name}={value}" for name, value in player.options.items()]
    places = [folder] * bool(player.files)
    return f"{player.kind}:{','.join([*map(str, places), *options])}"


def played(search: Search, count: int) -> Boards:
    """Return boards `[count, 16]` of games that the search plays, without the first moves."""
    episodes, seen = Episodes(0, range(GAMES)), list[Boards]()
    for move in range(WARM_UP_MOVES + -(-count // GAMES)):
        if move >= WARM_UP_MOVES:
            seen.append(episodes.boards.copy())
        episodes.step(search.find(episodes.boards, Limits()).moves)
    return np.concatenate(seen)[:count]


def direct_packed(search: Search, boards: Boards) -> float:
    """Return the boards per second of the search, called directly."""
    begin = time.perf_counter()
    search.find(boards, Limits())
    return len(boards) / (time.perf_counter() - begin)


def served_packed(stub: OctofoldServiceStub, model: str, boards: Boards) -> float:
    """Return the boards per second of two packed calls at a time."""
    begin = time.perf_counter()
    calls = [
        stub.NextMoves.future(pb.NextMovesRequest(model=model, boards=part.tobytes()))
        for part in np.array_split(boards, 2)
    ]
    answered = sum(len(call.result().moves) for call in calls)
    return answered / (time.perf_counter() - begin)


def direct_lone(search: Search, boards: Boards) -> float:
    """Return the median of the milliseconds that the search takes for one board."""
    return float(np.median(milliseconds([partial(search.find, board[None], Limits()) for board in boards])))


def served_lone(stub: OctofoldServiceStub, model: str, boards: Boards) -> float:
    """Return the median of the milliseconds between a call for one board and its answer."""
    requests = [pb.NextMovesRequest(model=model, boards=board.tobytes()) for board in boards]
    return float(np.median(milliseconds([partial(stub.NextMoves, request) for request in requests])))


def stopping_ms(search: Search, boards: Boards) -> float:
    """Return the median of the milliseconds between a stop and the end of a long search."""
    taken = []
    for board in boards[:20]:
        stop, told = np.zeros(1, np.uint8), [0.0]

        def tell(stop: NDArray[np.uint8] = stop, told: list[float] = told) -> None:
            time.sleep(0.02)
            told[0] = time.perf_counter()
            stop[0] = 1

        teller = threading.Thread(target=tell)
        teller.start()
        search.find(board[None], Limits(10.0, stop, deeper=True))
        ended = time.perf_counter()
        teller.join()
        taken.append(1e3 * (ended - told[0]))
    return float(np.median(taken))


def evaluated_player(spec: str, games: int, seconds: float) -> float:
    """Return the moves per second of an evaluation of a local player."""
    contender = local_player(spec)
    with PlayerThread(contender) as source, tempfile.TemporaryDirectory() as folder:
        moves, wall = evaluated([source], contender, games, seconds, Path(folder))
    return moves / wall


def evaluated_model(target: str, model: str, games: int, seconds: float) -> float:
    """Return the moves per second of an evaluation of a served model."""
    with Client(target) as client, tempfile.TemporaryDirectory() as folder:
        contender = select(client.list_models(), model)
        moves, wall = evaluated([ServedSource(client, contender)], contender, games, seconds, Path(folder))
    return moves / wall


def measured(arguments: argparse.Namespace) -> dict[str, float]:
    """Return the medians of all figures."""
    folder = newest_version(arguments.models, arguments.model)
    search = new_search(folder)
    boards = played(search, arguments.boards)
    lone = boards[:: max(1, len(boards) // LONE)][:LONE]
    with (
        LocalServer(arguments.models, ("--default-model", arguments.model)) as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        stub = OctofoldServiceStub(channel)
        served_packed(stub, arguments.model, boards)
        figures = medians(
            interleave(
                {
                    "direct_boards_per_second": lambda: direct_packed(search, boards),
                    "served_boards_per_second": lambda: served_packed(stub, arguments.model, boards),
                    "direct_lone_ms": lambda: direct_lone(search, lone),
                    "stopping_ms": lambda: stopping_ms(search, lone),
                    "served_lone_ms": lambda: served_lone(stub, arguments.model, lone),
                },
                arguments.rounds,
            )
        )
        if arguments.games:
            games, seconds = arguments.games, arguments.seconds
            plays = {
                "evaluated_player": lambda: evaluated_player(spec_of(folder), games, seconds),
                "evaluated_model": lambda: evaluated_model(server.target, arguments.model, games, seconds),
            }
            figures |= medians(interleave(plays, min(3, arguments.rounds)))
    return figures


def main() -> None:
    """Run the benchmark."""
    parser = new_parser(__doc__, model="perimeter", rounds=9)
    parser.add_argument("--boards", type=int, default=16384, help="boards per packed round (default: 16384)")
    parser.add_argument(
        "--games", type=int, default=512, help="concurrent games; 0 skips evaluations (default: 512)"
    )
    parser.add_argument(
        "--seconds", type=float, default=8, help="length of each evaluation in seconds (default: 8)"
    )
    arguments = parser.parse_args()
    figures = measured(arguments)
    print(f"a search ends {figures['stopping_ms']:.2f} ms after it is stopped")
    rows = [
        ("packed, boards/s", "direct_boards_per_second", "served_boards_per_second", ",.0f"),
        ("one board, ms", "direct_lone_ms", "served_lone_ms", ".3f"),
        ("evaluate, moves/s", "evaluated_player", "evaluated_model", ",.0f"),
    ]
    report(
        "searches",
        (arguments.model, "direct", "served", "served/direct"),
        [
            (
                title,
                f"{figures[one]:{form}}",
                f"{figures[other]:{form}}",
                f"{figures[other] / figures[one]:.3f}",
            )
            for title, one, other, form in rows
            if one in figures
        ],
        model=arguments.model,
        cores=usable_cores(),
        **{name: round(value, 4) for name, value in figures.items()},
    )


if __name__ == "__main__":
    main()
