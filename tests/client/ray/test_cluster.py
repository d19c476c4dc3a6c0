"""Games on a real Ray cluster of three nodes, while a node and a server die."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from octofold_client.rpc.local_server import LocalServer
from octofold_game.replays import check_replays
from support.commands import octofold
from support.waiting import wait_for

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (the extra `ray`)")

OCTOFOLD = Path(sys.executable).with_name("octofold")
CLUSTER = Path(__file__).parents[2] / "shared" / "support" / "ray_cluster.py"
GAMES = ["--games", "900", "--seed", "11"]


class RealCluster:
    """A running cluster that tests can use and damage."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders = process.stdin
        self.address = process.stdout.readline().strip()

    def kill(self, node: int) -> None:
        print(f"kill {node}", file=self._orders, flush=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    command = [sys.executable, str(CLUSTER)]
    # The program ends itself and its nodes at the end of its input.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        yield RealCluster(process)


def games_of(folder: Path) -> bytes:
    """Check all games of a result folder; return the content of its replay file."""
    for _, error in check_replays(folder / "games.replay"):
        assert error is None
    return (folder / "games.replay").read_bytes()


@pytest.mark.long
def test_games_are_the_same_even_if_a_server_and_a_node_die(
    cluster: RealCluster, target: str, repository: Path, tmp_path: Path
) -> None:
    with LocalServer(repository) as first, LocalServer(repository) as second:
        servers = ["--target", f"{first.target},{second.target}"]
        spread = ["--out", str(tmp_path / "spread"), "--ray", cluster.address]
        playing = subprocess.Popen(
            [OCTOFOLD, "evaluate", *GAMES, *servers, *spread], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        replays = tmp_path / "spread" / "games.replay"
        wait_for(lambda: playing.poll() is not None or (replays.exists() and replays.stat().st_size > 2000))
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        cluster.kill(2)
        _, errors = playing.communicate()  # without a limit: the test has a timeout
    assert playing.returncode == 0, errors
    assert octofold("evaluate", *GAMES, "--out", tmp_path / "alone", "--target", target).returncode == 0
    assert games_of(tmp_path / "spread") == games_of(tmp_path / "alone")


@pytest.mark.long
def test_slices_of_a_local_player_from_the_cluster_and_from_this_machine_merge(
    cluster: RealCluster, tmp_path: Path
) -> None:
    options: list[str | Path] = ["evaluate", "--player", "random", "--games", "4", "--out"]
    spread, here, merged, alone = (tmp_path / name for name in ("spread", "here", "merged", "alone"))
    commands: list[list[str | Path]] = [
        [*options, spread, "--slice", "1/2", "--ray", cluster.address],
        [*options, here, "--slice", "2/2"],
        ["merge", spread, here, "--out", merged],
        [*options, alone],
    ]
    for arguments in commands:
        done = octofold(*arguments)
        assert done.returncode == 0, done
    assert games_of(merged) == games_of(alone)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:1", "127.0.0.1:1 is not a Ray cluster, or it does not answer"),
        ("ray://127.0.0.1:10001", "is for Ray's remote client"),
    ],
)
def test_an_address_without_a_cluster_is_refused_at_once(tmp_path: Path, address: str, expected: str) -> None:
    done = octofold("evaluate", "--ray", address, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_another_grpc_server_is_not_taken_for_a_cluster(target: str, tmp_path: Path) -> None:
    done = octofold("evaluate", "--ray", target, "--out", tmp_path / "out")
    assert done.stderr == f"octofold: {target} is a gRPC server, but not a Ray cluster\n"
