"""The commands of examples/bring-your-own/README.md work, with smaller numbers."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "bring-your-own"
SMALLER = {"--positions 200000": "--positions 16000", "--games 200": "--games 3"}


def commands(page: str) -> list[str]:
    return re.findall(r"^```sh run\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_files_of_the_example_network_do_not_import_octofold() -> None:
    for file in ("game.py", "network.py", "train.py"):
        assert not re.search(r"^\s*(import|from) octofold", (FOLDER / file).read_text(), re.MULTILINE)


@pytest.mark.long  # it trains, exports twice and judges
def test_the_commands_of_the_page_train_export_serve_evaluate_and_compare(tmp_path: Path, port: int) -> None:
    folder = Path(
        shutil.copytree(FOLDER, tmp_path / "here", ignore=shutil.ignore_patterns("models", "results"))
    )
    program = "\n".join(["set -e", *commands((FOLDER / "README.md").read_text())])
    for long, short in (SMALLER | {"50061": str(port)}).items():
        assert long in program
        program = program.replace(long, short)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", program], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "mine version 1: 3 games" in done.stdout
    card = json.loads((folder / "models/mine/1/card.json").read_text())
    assert card["description"]["reads"]["planes"] == 14
    assert {"fp32", "int8", "fp16"} == card["precisions"].keys() | card.get("not_published", {}).keys()
    card = json.loads((folder / "models/mine-onnx/1/card.json").read_text())
    assert card["description"]["reads"]["layout"] == "channels_last"
