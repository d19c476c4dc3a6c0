"""Servers on a real Ray cluster of three nodes, and games that are spread over it while a node dies."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from octofold_game.replays import check_replays
from support.commands import octofold
from support.waiting import wait_for

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (the extra `ray`)")

OCTOFOLD = Path(sys.executable).with_name("octofold")
CLUSTER = Path(__file__).parents[2] / "shared" / "support" / "ray_cluster.py"
START_SECONDS = 120.0
GAMES = ["--games", "900", "--seed", "11"]


class RealCluster:
    """The cluster, as the tests see it."""

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
    # It ends with its input, and ends its nodes.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        yield RealCluster(process)


def games_of(folder: Path) -> bytes:
    """The file of all games, which are in order."""
    for _, error in check_replays(folder / "games.replay"):
        assert error is None
    return (folder / "games.replay").read_bytes()


def servers_of(repository: Path) -> list[psutil.Process]:
    """The processes of octofold-serve that serve this repository."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if str(repository) in words and any(word.endswith("octofold-serve") for word in words):
            found.append(process)
    return found


@pytest.mark.long
def test_games_are_the_same_when_a_server_and_a_node_die(
    cluster: RealCluster, target: str, repository: Path, tmp_path: Path
) -> None:
    models = tmp_path / "models"
    models.symlink_to(repository)  # a path by which this test knows its own servers
    file, log = tmp_path / "addresses", tmp_path / "log"
    options: list[str | Path] = ["--cluster", cluster.address, "--models", models, "--replicas", "2"]
    command = [OCTOFOLD, "ray", "serve", *options, "--address-file", file, "--", "--grace", "0"]
    with log.open("w") as stderr:
        service = subprocess.Popen(command, stderr=stderr)
    try:

        def serving() -> list[str]:
            assert service.poll() is None, log.read_text()
            return file.read_text().split() if file.exists() else []

        wait_for(lambda: len(serving()) == 2, START_SECONDS)
        before = serving()
        done = octofold("ray", "addresses", "--cluster", cluster.address)
        assert done.stdout == f"{','.join(before)}\n", done
        done = octofold("ray", "addresses", "--cluster", cluster.address, "--json")
        assert json.loads(done.stdout) == {"schema": 1, "addresses": before}, done

        evaluation = ["evaluate", *GAMES, "--out", str(tmp_path / "spread"), "--ray", cluster.address]
        playing = subprocess.Popen([OCTOFOLD, *evaluation], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        replays = tmp_path / "spread" / "games.replay"
        wait_for(lambda: playing.poll() is not None or (replays.exists() and replays.stat().st_size > 2000))
        servers_of(models)[0].kill()
        cluster.kill(2)
        _, errors = playing.communicate()  # for as long as the machine is busy: the mark ends it if it hangs
        assert playing.returncode == 0, errors
        assert octofold("evaluate", *GAMES, "--out", tmp_path / "alone", "--target", target).returncode == 0
        assert games_of(tmp_path / "spread") == games_of(tmp_path / "alone")

        wait_for(lambda: len(serving()) == 2 and serving() != before, START_SECONDS)
        assert "lost the replica" in log.read_text()
        service.send_signal(signal.SIGINT)
        assert service.wait(60) == 0, log.read_text()
        assert "stopping: the replicas finish their accepted calls" in log.read_text()
        assert "Traceback" not in log.read_text()
        assert not file.exists()
        assert not servers_of(models)
    finally:
        service.kill()
        service.wait()


@pytest.mark.long
def test_a_slice_of_a_local_player_on_the_cluster_merges_with_one_played_here(
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


@pytest.mark.long
def test_what_cannot_be_placed_is_one_line(cluster: RealCluster, repository: Path, tmp_path: Path) -> None:
    serve = ["ray", "serve", "--cluster", cluster.address]
    nowhere = tmp_path / "nowhere"
    cases: list[tuple[list[str | Path], str]] = [
        (["--models", nowhere], f"octofold-serve: cannot read the model repository {nowhere}: "),
        (
            ["--models", repository, "--cpus", "64", "--wait", "1"],
            "no room for 1 of 1 replica: each needs 64 CPUs",
        ),
    ]
    for options, expected in cases:
        done = octofold(*serve, *options)
        assert done.returncode == 1, done
        *_, last = done.stderr.splitlines()
        assert last.startswith("octofold: ")
        assert expected in last
        assert len(done.stderr.splitlines()) <= 2
    done = octofold("evaluate", "--ray", cluster.address, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "octofold: the Ray cluster has no replica named octofold: place some with" in done.stderr


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:1", "127.0.0.1:1 is no Ray cluster, or it does not answer"),
        ("ray://127.0.0.1:10001", "is for Ray's remote client"),
    ],
)
def test_an_address_that_is_no_cluster_is_refused_at_once(
    tmp_path: Path, address: str, expected: str
) -> None:
    done = octofold("evaluate", "--ray", address, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_another_grpc_server_is_no_cluster(target: str) -> None:
    done = octofold("ray", "addresses", "--cluster", target)
    assert done.stderr == f"octofold: {target} is a gRPC server, but no Ray cluster\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--replicas", "0"], "--replicas must be an integer from 1 to 1000, got '0'"),
        (["--replicas", "3:2"], "--replicas must be an integer from 1 to 1000, got '3:2'"),
        (["--", "--host", "0.0.0.0"], "--host cannot follow --: each replica gets its own"),
        (["--", "--tokens=file"], "--tokens needs --tls-certificate and --tls-key"),
    ],
)
def test_a_wrong_command_line_is_refused_before_a_cluster_is_asked(options: list[str], expected: str) -> None:
    done = octofold("ray", "serve", *options)
    assert done.returncode == 2
    assert done.stderr.startswith(f"octofold ray serve: {expected}")
