"""`make first` runs the commands of examples/first-network/README.md, here with smaller numbers."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from octofold_game.episodes import Episodes

ROOT = Path(__file__).parents[2]
SMALLER = {
    "README.md": {
        "--games 50": "--games 2",
        "--name first": "--name first --boards boards.npy",
    },
    "teacher.toml": {"moves = 20e6": "moves = 1e5\ntuples = [[0, 1, 2, 3], [4, 5, 6, 7]]\nfirst_tuples = 2"},
    "first.toml": {"positions = 5e6": "positions = 5e3\nbatch_size = 256", "[256, 256]": "[16]"},
}


def boards() -> np.ndarray:
    """Return boards of random games."""
    random, episodes, seen = np.random.default_rng(1), Episodes(3, range(200)), []
    for _ in range(60):
        seen.append(episodes.boards)
        episodes.step((random.random(episodes.legal.shape) * episodes.legal).argmax(axis=1).astype(np.uint8))
    return np.concatenate(seen)


@pytest.mark.long  # it trains twice, exports and judges
def test_make_first_trains_exports_plays_and_compares_and_continues_after_a_stop(tmp_path: Path) -> None:
    page = tmp_path / "examples" / "first-network"
    shutil.copytree(ROOT / "examples" / "first-network", page)
    for name, changes in SMALLER.items():
        text = (page / name).read_text()
        for long, short in changes.items():
            assert long in text
            text = text.replace(long, short)
        (page / name).write_text(text)
    np.save(tmp_path / "boards.npy", boards())
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "swift").symlink_to(ROOT / "models" / "swift")
    bin_folder = f"BIN={Path(sys.executable).parent}"
    command = ["make", "--file", str(ROOT / "Makefile"), "--old-file", ".venv/dev", "first", bin_folder]
    # With the variables of an outer make, this make would print the folder that it enters.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}

    def make() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    done = make()
    assert done.returncode == 0, done.stderr
    assert "# 2. The student:" in done.stderr  # each step names the expected result
    of_teacher, of_student = re.findall(
        r"^finished: .*\nscore: +[\d,]+ |^finished: .*\nlast: .*\nstrength: .* ±", done.stdout, re.M
    )
    assert "moves in" in of_teacher
    assert "positions in" in of_student
    assert "export:     octofold-export --checkpoint checkpoints/first --name first\n" in done.stdout
    for made in ("models/first/1/card.json", "results/first/mine/result.json"):
        assert (tmp_path / made).is_file()
    *_, verdict = done.stdout.splitlines()
    assert "difference" in verdict or "swift" in verdict

    (tmp_path / "results" / "first" / "swift" / "result.json").unlink()  # as after a stop in step 5
    again = make()
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == verdict
