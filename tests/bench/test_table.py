"""The table of results in README.md is exactly what the model cards say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEEDS = {"small": "9,876", "large": "543"}
MARKED = "# Title\n\n<!-- results: made by hand -->\nold\n<!-- end of results -->\n\nrest\n"


def table(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "bench" / "strength" / "table.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def publish(models: Path, name: str, version: int, average: float | None) -> None:
    strength = average and {
        "games": 100,
        "seed": 0,
        "precision": "int8",
        "average": average,
        "average_interval": [average - 1000, average + 1000],
        "median": average,
        "best": 90_000,
        "reached": [
            {"tile": 512, "share": 1.0, "interval": [0.9, 1.0]},
            {"tile": 4096, "share": 0.6, "interval": [0.5, 0.7]},
            {"tile": 16384, "share": 0.5, "interval": [0.4, 0.6]},
        ],
        "command": f"octofold evaluate --model {name} --version {version} --games 100 --seed 0",
    }
    serving = {"format": 1, "name": name, "version": version, "largest_exponent": 15, "precisions": {}}
    card = {**serving, "weights": 1234, "decision_rule": "vote", "symmetries": 8}
    (models / name / str(version)).mkdir(parents=True)
    (models / name / str(version) / "card.json").write_text(json.dumps({**card, "strength": strength}))


@pytest.fixture
def readme(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text(MARKED)
    return tmp_path / "README.md"


@pytest.fixture
def speeds(tmp_path: Path) -> Path:
    rows = [f"| `{model}` | 30,000 | {speed} | 0.99 / 2.15 | 181 |" for model, speed in SPEEDS.items()]
    (tmp_path / "speed.md").write_text("\n".join(rows))
    return tmp_path / "speed.md"


def test_the_readme_of_this_tree_is_what_the_cards_say() -> None:
    done = table("--check", "--readme", ROOT / "README.md", "--models", ROOT / "models")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_newest_measured_version_of_each_model_is_shown_the_strongest_first(
    readme: Path, speeds: Path, tmp_path: Path
) -> None:
    models = tmp_path / "models"
    publish(models, "small", 2, 20_000)
    publish(models, "small", 10, 30_000)
    publish(models, "small", 11, None)
    publish(models, "large", 1, 50_000)
    assert table("--readme", readme, "--models", models, "--speeds", speeds).returncode == 0
    text = readme.read_text()
    assert text.startswith(
        "# Title\n\n<!-- results: made by hand -->\n"
        "| model | weights | average score | reaches 16384 | boards/s |\n"
    )
    assert text.endswith("<!-- end of results -->\n\nrest\n")
    large, small = [line for line in text.splitlines() if line.startswith("| [")]
    assert large.startswith("| [`large`](models/large/1/README.md), vote of 8 views, int8 | 1,234 | 50,000 (")
    assert "models/small/10/" in small
    assert small.endswith("| 50.0% (40.0 to 60.0) | 9,876 |")
    assert large.endswith("| 50.0% (40.0 to 60.0) | 543 |")
    assert "4096" not in text
    assert "\nold\n" not in text
    assert "Measured by `octofold evaluate --model NAME --version N --games 100 --seed 0`. Boards/s" in text


def test_check_reports_an_outdated_table_and_changes_nothing(
    readme: Path, speeds: Path, tmp_path: Path
) -> None:
    publish(tmp_path / "models", "small", 1, 20_000)
    options = ("--readme", readme, "--models", tmp_path / "models", "--speeds", speeds)
    done = table("--check", *options)
    assert done.returncode == 1
    assert "run `make table`" in done.stderr
    assert readme.read_text() == MARKED
    table(*options)
    assert table("--check", *options).returncode == 0


def test_a_card_that_cannot_be_read_is_named(readme: Path, tmp_path: Path) -> None:
    publish(tmp_path / "models", "small", 1, 20_000)
    (tmp_path / "models/small/1/card.json").write_text("{}")
    done = table("--readme", readme, "--models", tmp_path / "models")
    assert done.returncode == 1
    assert "small/1: card.json: format is missing" in done.stderr
    assert readme.read_text() == MARKED


def test_a_model_without_a_speed_is_named(readme: Path, speeds: Path, tmp_path: Path) -> None:
    publish(tmp_path / "models", "other", 1, 20_000)
    done = table("--readme", readme, "--models", tmp_path / "models", "--speeds", speeds)
    assert (done.returncode, readme.read_text()) == (1, MARKED)
    assert done.stderr.endswith("the page with the speeds has no boards/s of other\n")


def test_a_readme_without_markers_is_refused(readme: Path, tmp_path: Path) -> None:
    readme.write_text("# Title\n")
    done = table("--readme", readme, "--models", tmp_path)
    assert done.returncode == 1
    assert "the markers <!-- results: ... --> and <!-- end of results --> are missing" in done.stderr
    assert readme.read_text() == "# Title\n"
