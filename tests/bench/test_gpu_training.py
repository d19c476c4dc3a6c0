"""`gpu_training.py` trains in slices, here on a CPU, and what it packs can be carried and joined.

`gpu_learning.py` measures the parts of such a training.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from octofold_players.ntuple.network import NTupleNetwork
from octofold_training import checkpoints

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
TUPLES = ((0, 1, 2, 3), (4, 5, 6, 7))
RECIPE = """[network]
kind = "pairs"
patterns = ["lines"]
features = 8
dense = [32]
exponents = 16

[device_distil]
batch_size = 64
slices = 2
warm_up_moves = 20
positions = 1e9
"""


def _run(folder: Path, *flags: str, script: str = "gpu_training.py") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "bench" / "gpu" / script), *flags]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def _slice(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    common = "--recipe tiny.toml --teacher teacher --disk disk --out out --device cpu --piece-bytes 1000"
    return _run(folder, *common.split(), *flags)


def test_a_run_goes_on_from_slice_to_slice_and_what_comes_back_is_whole(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    values = np.random.default_rng(1).normal(0, 100, NTupleNetwork.size(TUPLES)).astype(np.float32)
    NTupleNetwork(TUPLES, values).save(tmp_path / "teacher")
    out, joined = tmp_path / "out", tmp_path / "joined"
    out.mkdir()
    (out / "checkpoint.tar.999").write_bytes(b"of an earlier, larger checkpoint")
    figures = []
    for _ in range(2):
        done = _slice(tmp_path, "--minutes", "0.01")
        assert done.returncode == 0, done.stderr
        figures.append(json.loads(done.stdout.splitlines()[-1]))
    positions = [each["positions"] for each in figures]
    assert 0 < positions[0] < positions[1]
    assert (out / "curves.png").exists()
    pieces = sorted(out.glob("checkpoint.tar.*"))
    assert len(pieces) == figures[1]["pieces"] > 4
    assert {piece.stat().st_size for piece in pieces[:-1]} == {1000}
    assert _run(tmp_path, "--join", "out", "--checkpoint", "joined").returncode == 0
    assert checkpoints.load(joined).training["positions"] == positions[1]

    pieces[2].unlink()
    before = {file.name: file.read_bytes() for file in joined.iterdir()}
    lost = _run(tmp_path, "--join", "out", "--checkpoint", "joined")
    assert lost.returncode == 1
    assert lost.stderr.startswith("bench/gpu/gpu_training.py: out: a piece is missing or damaged (")
    assert {file.name: file.read_bytes() for file in joined.iterdir()} == before


def test_what_is_missing_is_said_in_one_line(tmp_path: Path) -> None:
    none = _run(tmp_path, "--join", ".", "--checkpoint", "joined")
    assert (none.returncode, none.stderr) == (1, "bench/gpu/gpu_training.py: . has no checkpoint.tar.000\n")
    wrong = _slice(tmp_path, "--recipe", "nowhere.toml")
    assert wrong.returncode == 1
    assert wrong.stderr.strip() == "octofold-train: nowhere.toml: no such recipe"


def test_the_parts_of_a_training_have_figures(tmp_path: Path) -> None:
    flags = ["--device", "cpu", "--boards", "16", "--updates", "1", "--warm-up-moves", "5"]
    done = _run(tmp_path, *flags, script="gpu_learning.py")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    parts = ["labels, 1 deep", "labels, 2 deep", "a move in each game"]
    parts += [f"{name}: update, labels, moves" for name in ("CNN5", "symmetric-200", "flagship", "swift")]
    assert list(figures["milliseconds"]) == parts
    assert all(figures["milliseconds"].values())
