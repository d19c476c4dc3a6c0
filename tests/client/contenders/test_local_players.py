"""`--player`: local players with options, evaluated like served models."""

import re
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from octofold_client.contenders.local_players import LocalContender, local_player
from octofold_client.contenders.player_thread import BOARDS_AT_ONCE, PlayerThread
from octofold_client.errors import EvaluationError
from octofold_game.replays import read_replays
from support.commands import octofold
from support.json_files import read_json
from support.players import FirstLegal


def games_of(folder: Path) -> dict[int, bytes]:
    return {episode.game: episode.moves for episode in read_replays(folder / "games.replay")}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("expectimx:depth=2", "unknown player 'expectimx' (choose .*; did you mean expectimax?"),
        ("minimax:dpeth=2", "minimax has no option dpeth (choose from .*; did you mean depth?"),
        ("montecarlo:runs=many", "montecarlo: runs must be a whole number, got 'many'"),
        ("ntuple:depth=2", "ntuple needs the option path, as in ntuple:PATH"),
        ("ntuple:models/ntuple", ".* network.json is missing; did you mean models/ntuple/4?"),
    ],
)
def test_a_wrong_player_spec_is_refused_with_the_valid_choices(spec: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=re.escape(message).replace(r"\.\*", ".*")):
        local_player(spec)


def install_mine(folder: Path, source: str) -> None:
    """Write a package of version 3.1 with a player `mine`; the folder must be on Python's path."""
    (folder / "my_players.py").write_text(source)
    described = folder / "my_players-3.1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: my-players\nVersion: 3.1\n")
    (described / "entry_points.txt").write_text("[octofold.players]\nmine = my_players:Mine\n")


def test_another_package_can_register_players(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_mine(
        tmp_path,
        "from dataclasses import dataclass\n"
        "@dataclass\nclass Mine:\n    level: int\n    name: str = 'mine'\n    deep: bool = False\n"
        "    def next_moves(self, boards): ...\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    contender = local_player("mine:7,deep=true")
    assert (contender.version.version, contender.title) == ("3.1", "mine:7,deep=true")
    assert vars(contender.player) == {"level": 7, "name": "mine", "deep": True}


def test_results_name_the_options_of_a_player_that_does_not_report_them(tmp_path: Path) -> None:
    """The folder, the name and the result differ between bias=0.9 and bias=0.1."""
    install_mine(
        tmp_path,
        "from dataclasses import dataclass\n"
        "import numpy as np\n"
        "from octofold_game.rules import legal_moves\n"
        "@dataclass\nclass Mine:\n    bias: float = 0.5\n    name: str = 'mine'\n"
        "    def next_moves(self, boards):\n"
        "        order = np.array([0, 1, 2, 3] if self.bias < 0.5 else [3, 2, 1, 0])\n"
        "        return order[legal_moves(boards)[:, order].argmax(axis=1)].astype(np.int8)\n",
    )

    def evaluated(*arguments: str) -> subprocess.CompletedProcess[str]:
        return octofold("evaluate", *arguments, "--games", "5", folder=tmp_path, packages=tmp_path)

    low, high = (evaluated("--player", f"mine:bias={bias}") for bias in ("0.1", "0.9"))
    assert low.returncode == high.returncode == 0, (low, high)
    assert low.stdout.startswith("**mine:bias=0.1 version 3.1: 5 games, seed 0**")
    assert high.stdout.startswith("**mine:bias=0.9 version 3.1: 5 games, seed 0**")
    average = [next(line for line in done.stdout.splitlines() if "average" in line) for done in (low, high)]
    assert average[0] != average[1]
    assert "An earlier run played all games" not in high.stdout
    assert evaluated("--player", "mine:bias=0.1", "--out", "out").returncode == 0
    refused = evaluated("--player", "mine:bias=0.9", "--out", "out")
    assert refused.returncode == 1
    assert "out contains games of model mine:bias=0.1, not mine:bias=0.9, sha256 " in refused.stderr
    same = evaluated("--player", "mine:bias=0.1")
    assert "An earlier run played all games" in same.stdout
    assert same.stderr.startswith("5 games already finished in earlier runs")


def test_a_player_or_command_without_its_packages_says_what_to_install(games: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from octofold_client.cli import main\n"
        "for typed in sys.argv[1:]:\n"
        "    missing, *arguments = typed.split()\n"
        "    sys.modules[missing] = None\n"
        "    print(main(arguments))\n"
        "    del sys.modules[missing]"
    )
    typed = ("numba evaluate --player minimax", f"matplotlib report {games} --plots")
    command = [sys.executable, "-c", program, *typed]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "1\n1\n"
    wanted = (("the player minimax needs numba", "players"), ("pictures need matplotlib", "plots"))
    for said, (need, extra) in zip(done.stderr.splitlines(), wanted, strict=True):
        assert said.startswith(f"octofold: {need}: run ")
        assert "pip install" in said
        assert f"[{extra}]" in said


def test_an_evaluation_of_a_local_player_is_like_any_other(tmp_path: Path) -> None:
    spec = ("--player", "random:seed=4", "--seed", "5")
    done = octofold("evaluate", *spec, "--games", "12", folder=tmp_path)
    assert done.returncode == 0, done
    (folder,) = (tmp_path / "results").glob("evaluate-random-seed=4-v*-seed5")
    result = read_json(folder / "result.json")
    assert (result["model"], result["precision"], result["card"]) == ("random:seed=4", "", None)
    assert result["sha256"] == local_player("random:seed=4").sha256
    assert octofold("verify", folder, folder=tmp_path).returncode == 0
    # The games do not depend on the number in flight, and the same command continues.
    other = octofold("evaluate", *spec, "--games", "5", "--parallel", "2", "--out", "other", folder=tmp_path)
    assert other.returncode == 0, other
    first_five = games_of(tmp_path / "other")
    assert first_five == {game: moves for game, moves in games_of(folder).items() if game < 5}
    more = octofold("evaluate", *spec, "--games", "12", "--out", "other", folder=tmp_path)
    assert "An earlier run played" not in more.stdout
    assert games_of(tmp_path / "other") == games_of(folder)


MANY_BOARDS = np.zeros((10 * BOARDS_AT_ONCE, 16), np.uint8)
MANY_BOARDS[:, :2] = 1


def test_leaving_cancels_a_search_between_two_slices() -> None:
    begun, left = threading.Event(), threading.Event()
    slices: list[int] = []

    class Slow(FirstLegal):
        def next_moves(self, boards: NDArray[np.uint8]) -> NDArray[np.int8]:
            slices.append(len(boards))
            begun.set()
            left.wait()
            return super().next_moves(boards)

    with PlayerThread(LocalContender(Slow(), "1")) as source:
        pending, next_one = source.ask(MANY_BOARDS), source.ask(MANY_BOARDS)
        next_one.add_done_callback(left.set)  # this call has not begun; leaving the block cancels it
        begun.wait()
    assert len(slices) == 1
    with pytest.raises(CancelledError):
        pending.result()
