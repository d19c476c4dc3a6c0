"""A network of Keras, by the commands of docs/export.md, where tensorflow and tf2onnx are installed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from octofold_export.checks.runner import FoldedGraph
from octofold_export.description.hints import hints_from_flags
from octofold_export.graph.folding import fold
from octofold_export.graph.heads import head
from octofold_export.sources.described import from_onnx
from octofold_game.rules import legal_moves
from support.lessons import Lessons

pytestmark = pytest.mark.long  # tensorflow alone takes half a minute to start twice

SCRIPT = """
import keras, numpy as np
network = keras.Sequential([
    keras.layers.Input((4, 4, 16)), keras.layers.Conv2D(8, 2, activation="relu"),
    keras.layers.Flatten(), keras.layers.Dense(4),
])
np.save("answers.npy", network.predict(np.load("inputs.npy"), verbose=0))
network.save("network.keras")
"""
EXPORT = "import keras; keras.saving.load_model('network.keras', compile=False).export('saved')"


def test_a_keras_file_is_converted_by_the_documented_commands_and_plays_its_moves(
    lessons: Lessons, tmp_path: Path
) -> None:
    pytest.importorskip("tensorflow")
    pytest.importorskip("tf2onnx")
    boards = lessons.boards[:300]
    np.save(tmp_path / "inputs.npy", np.eye(16, dtype=np.float32)[boards].reshape(-1, 4, 4, 16))
    convert = ["-m", "tf2onnx.convert", "--saved-model", "saved", "--opset", "18", "--output", "net.onnx"]
    for command in (["-c", SCRIPT], ["-c", EXPORT], convert):
        subprocess.run([sys.executable, *command], cwd=tmp_path, check=True)
    source = from_onnx(tmp_path / "net.onnx", hints_from_flags({"answers.kind": "policy_logits"}))
    assert source.description.reads.layout == "channels_last"
    graph = FoldedGraph(fold(head(source.description, source.fp32), "vote", 1))
    answers = np.load(tmp_path / "answers.npy")
    expected = np.where(legal_moves(boards), answers, -np.inf).argmax(axis=1)
    assert np.mean(graph.next_moves(boards) == expected) > 0.99
