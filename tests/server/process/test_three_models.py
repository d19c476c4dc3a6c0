"""A network and players behind one server: equal answers by every protocol, whatever happens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_game.contract.model import CARD_FILE, ServedPlayer
from octofold_game.episodes import Episodes
from octofold_game.player import Player
from octofold_players.endgame.formation import SIX
from octofold_players.endgame.solver import solve
from octofold_players.endgame.tables import save_table
from octofold_players.expectimax.player import HeuristicExpectimaxPlayer
from octofold_players.perimeter.player import PerimeterPlayer
from octofold_proto.octofold.v1 import inference_pb2 as pb
from octofold_proto.octofold.v1.inference_pb2_grpc import OctofoldServiceStub
from support.player_versions import write_version
from support.servers import ServerProcess, server_starter
from support.shipped import newest

MODELS = ("swift", "expectimax", "perimeter")
DEPTH = 2
every_model = pytest.mark.parametrize("model", MODELS)


@pytest.fixture(scope="module")
def players(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Player]:
    """The players in this process; `perimeter` has small tables."""
    tables = tmp_path_factory.mktemp("tables")
    save_table(tables, SIX, 6, solve(SIX, 6))
    return {
        "expectimax": HeuristicExpectimaxPlayer(DEPTH),
        "perimeter": PerimeterPlayer(tables, depth=DEPTH),
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, players: dict[str, Player]) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    shutil.copytree(newest("swift"), folder / "models" / "swift" / "1")
    for name, player in players.items():
        sources: dict[str, Path] = getattr(player, "served_files", dict)()
        files = {file: source.read_bytes() for file, source in sources.items()}
        described = ServedPlayer(kind=name, options={"depth": DEPTH})
        write_version(folder / "models" / name / "1", described, files, "heuristic points")
    card = folder / "models" / "swift" / "1" / CARD_FILE
    card.write_text(json.dumps({**json.loads(card.read_text()), "version": 1}))
    with server_starter(folder, folder / "models") as start:
        yield start("--players", "expectimax,perimeter", "--default-model", "swift", rest=True)


@pytest.fixture(scope="module")
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.target) as channel:
        yield channel


@pytest.fixture(scope="module")
def boards() -> NDArray[np.uint8]:
    """Boards of games, one of them over."""
    episodes, seen = Episodes(0, range(2)), []
    for move in range(40):
        seen.append(episodes.boards.copy())
        episodes.step(np.full(len(episodes.boards), move % 4, np.int8))
    over = np.resize(np.array([1, 2, 1, 2, 2, 1, 2, 1], np.uint8), (1, 16))
    return np.concatenate([over, *seen])


def packed(channel: grpc.Channel, model: str, boards: NDArray[np.uint8], **fields: Any) -> list[int]:
    request = pb.NextMovesRequest(model=model, boards=boards.tobytes(), **fields)
    return list(np.frombuffer(OctofoldServiceStub(channel).NextMoves(request).moves, np.int8).tolist())


def test_players_make_the_moves_that_they_make_in_this_process(
    channel: grpc.Channel, boards: NDArray[np.uint8], players: dict[str, Player]
) -> None:
    for model, player in players.items():
        assert packed(channel, model, boards) == [-1, *player.next_moves(boards[1:]).tolist()]


@every_model
def test_whatever_else_runs_changes_no_answer(
    model: str, channel: grpc.Channel, boards: NDArray[np.uint8]
) -> None:
    moves = packed(channel, model, boards)
    with ThreadPoolExecutor(6) as pool:
        others = [pool.submit(packed, channel, model, boards[n:], search_time_us=1) for n in (1, 2, 3)]
        others += [pool.submit(packed, channel, other, boards) for other in MODELS]
        assert [packed(channel, model, boards[::-1])[::-1] for _ in range(3)] == [moves] * 3
        for other in others:
            other.exception()  # one microsecond may be too short for a move
