"""The table of results in README.md is exactly what the model cards say."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "bench" / "strength" / "table.py")
MARKED = "# Title\n\n<!-- results: made by hand -->\nold\n<!-- end of results -->\n\nrest\n"


def table(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SCRIPT, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def publish(models: Path, name: str, version: int, average: float | None) -> None:
    strength = average and {
        "games": 100,
        "seed": 0,
        "precision": "int8",
        "average": average,
        "average_interval": [average - 1000, average + 1000],
        "median": average,
        "best": 90_000,
        "reached": [{"tile": 16384, "share": 0.5, "interval": [0.4, 0.6]}],
        "command": f"octofold evaluate --model {name} --version {version} --games 100 --seed 0",
    }
    serving = {"format": 1, "name": name, "version": version, "largest_exponent": 15, "precisions": {}}
    card = {**serving, "weights": 1234, "decision_rule": "vote", "symmetries": 8}
    (models / name / str(version)).mkdir(parents=True)
    (models / name / str(version) / "card.json").write_text(json.dumps({**card, "strength": strength}))


def test_the_table_of_the_readme_agrees_with_the_cards() -> None:
    done = table(ROOT, "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_table_shows_the_newest_measured_version_of_each_model_the_strongest_first(
    tmp_path: Path,
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(MARKED)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "speed.md").write_text("| `small` | 30,000 | 9,876 |\n| `large` | 50,000 | 543 |\n")
    publish(tmp_path / "models", "small", 2, 20_000)
    publish(tmp_path / "models", "small", 10, 30_000)
    publish(tmp_path / "models", "small", 11, None)
    publish(tmp_path / "models", "large", 1, 50_000)
    assert table(tmp_path, "--check").returncode == 1
    assert readme.read_text() == MARKED
    assert table(tmp_path).returncode == 0
    assert table(tmp_path, "--check").returncode == 0
    text = readme.read_text()
    assert text.startswith("# Title\n\n<!-- results: made by hand -->\n| model | weights | average score |")
    assert text.endswith("<!-- end of results -->\n\nrest\n")
    large, small = [line for line in text.splitlines() if line.startswith("| [")]
    assert large.startswith("| [`large`](models/large/1/README.md), vote of 8 views, int8 | 1,234 | 50,000 (")
    assert large.endswith("| 50.0% (40.0 to 60.0) | 543 |")
    assert "models/small/10/" in small
    assert "\nold\n" not in text
    assert "Measured by `octofold evaluate --model NAME --version N --games 100 --seed 0`. Boards/s" in text
