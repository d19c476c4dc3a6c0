"""`bench/gpu_training.py` trains in slices, here on a CPU, and what it packs can be carried and joined."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gpu_training
import numpy as np
import pytest
from octofold_players.ntuple import NTupleNetwork
from octofold_training import checkpoints

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


def _slice(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, gpu_training.__file__, "--recipe", "tiny.toml", "--teacher", "teacher"]
    command += ["--disk", "disk", "--out", "out", "--device", "cpu", *flags]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.timeout(300)
def test_a_run_goes_on_from_slice_to_slice_and_what_comes_back_is_whole(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    values = np.random.default_rng(1).normal(0, 100, NTupleNetwork.size(TUPLES)).astype(np.float32)
    NTupleNetwork(TUPLES, values).save(tmp_path / "teacher")
    positions = []
    for _ in range(2):
        done = _slice(tmp_path, "--minutes", "0.01")
        assert done.returncode == 0, done.stderr
        positions.append(json.loads(done.stdout.splitlines()[-1])["positions"])
    assert 0 < positions[0] < positions[1]
    assert (tmp_path / "out" / "curves.png").exists()
    joined = tmp_path / "joined"
    assert gpu_training.join(tmp_path / "out", joined) == 0
    assert checkpoints.load(joined).training["positions"] == positions[1]

    wrong = _slice(tmp_path, "--recipe", "nowhere.toml")
    assert wrong.returncode == 1
    assert wrong.stderr.strip() == "octofold-train: nowhere.toml: no such recipe"


def test_pieces_are_small_and_a_lost_one_is_noticed_before_anything_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_training, "PIECE_BYTES", 1000)
    checkpoint, out, joined = tmp_path / "checkpoint", tmp_path / "out", tmp_path / "joined"
    for folder in (checkpoint, out, joined):
        folder.mkdir()
    (checkpoint / "weights.pt").write_bytes(bytes(4000))
    (out / "checkpoint.tar.099").write_bytes(b"of an earlier, larger checkpoint")
    count = gpu_training.pack(checkpoint, out)
    pieces = sorted(out.iterdir())
    assert len(pieces) == count > 4
    assert max(piece.stat().st_size for piece in pieces) == 1000
    pieces[2].unlink()
    (joined / "weights.pt").write_bytes(b"older weights")
    with pytest.raises(ValueError, match="a piece is missing or damaged"):
        gpu_training.join(out, joined)
    assert (joined / "weights.pt").read_bytes() == b"older weights"
    with pytest.raises(ValueError, match=r"has no checkpoint\.tar\.000"):
        gpu_training.join(tmp_path, joined)
