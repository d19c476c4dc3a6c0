"""onnxruntime sends no telemetry about models."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOAD = """\
import {module}
import onnxruntime
onnxruntime.InferenceSession({model!r}, providers=["CPUExecutionProvider"])
"""
OFF = ("CI", "ORT_", "PYTEST")
"""Prefixes of environment variables that may switch telemetry off."""


@pytest.mark.parametrize(
    "module", ["octofold_server.backends.onnx_session", "octofold_export.checks.folded_graph"]
)
def test_loading_a_model_stores_no_machine_id_and_no_telemetry(
    module: str, graph: bytes, tmp_path: Path
) -> None:
    model, home = tmp_path / "model.onnx", tmp_path / "home"
    model.write_bytes(graph)
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OFF)}
    variables = {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    program = LOAD.format(module=module, model=str(model))
    subprocess.run([sys.executable, "-c", program], env=variables, check=True)
    assert list(home.rglob("*")) == []
