"""The page shows single views only for models with small files."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from octofold_game.contract.model import GraphFile, ListedFile
from octofold_server.web.views import MAX_MEGABYTES, Views


@pytest.mark.parametrize("where", ["model.onnx", "table.bin"])
def test_a_model_with_large_files_gets_no_second_session(where: str, tmp_path: Path) -> None:
    folder = tmp_path / "large" / "1"
    folder.mkdir(parents=True)
    for file in ("model.onnx", "table.bin"):
        (folder / file).write_bytes(b"small")
    table = ListedFile(file="table.bin", sha256="0" * 64)
    graph = GraphFile(file="model.onnx", sha256="0" * 64, tensors={"table": table})
    served: Any = SimpleNamespace(name="large", version="1", precision="fp32", graph=graph)
    assert "more than" not in Views(tmp_path).why_not(served)
    os.truncate(folder / where, (MAX_MEGABYTES << 20) + 1)
    assert Views(tmp_path).why_not(served) == "its files have more than 64 MB"
