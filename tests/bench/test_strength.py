"""`bench/strength/strength.py` measures the rows that can play, and says why another one is left out."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


def test_a_row_without_its_precision_is_left_out_and_the_others_are_measured(
    publish_model: Callable[..., Path], small_model: bytes, tmp_path: Path
) -> None:
    graph = {"file": "model.onnx", "sha256": hashlib.sha256(small_model).hexdigest(), "agreement": 1.0}
    version = publish_model(tmp_path / "models", precisions={"fp32": graph, "int8": graph})
    exported = tmp_path / "out" / "small-1" / "models"
    publish_model(exported, "vote-1", not_published={"int8": "int8 leaves 98.98%"})
    publish_model(exported, "vote-8")
    rows = ["1 view, int8", "8 views, vote, fp32"]
    flags = [version, "--checkpoint", tmp_path / "none", "--games", 2, "--out", tmp_path / "out"]
    for row in rows:
        flags += ["--row", row]
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "strength" / "strength.py"), *map(str, flags)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1 view, int8: left out (int8 leaves 98.98%)\n" in done.stderr
    results = json.loads(done.stdout.splitlines()[-1])["results"]
    assert list(results) == ["as published", "8 views, vote, fp32"]
    assert results["as published"] == results["8 views, vote, fp32"]
