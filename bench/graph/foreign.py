"""Publishes networks of many shapes with the defaults, and counts how often the moves are the network's own.

    python bench/graph/foreign.py
    python bench/graph/foreign.py --only dueling residual
    python bench/graph/foreign.py --keras ENV/bin/python --sb3 ENV/bin/python

The last one adds a network of Keras, through tf2onnx, and one of Stable-Baselines3. Each needs a Python that
has tensorflow and tf2onnx, or stable-baselines3.

`foreign_networks.py` and `foreign_libraries.py` train them. The check shares no code with the export: it
turns the boards, asks the network itself, and slides the tiles by the game of examples/bring-your-own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from foreign_networks import NETWORKS, POLICY, four, plain_game
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

_HERE = Path(__file__).parent
_BOARDS = 2_000


def own_moves(
    answers: Callable[[NDArray[Any]], NDArray[Any]],
    boards: NDArray[Any],
    views: int,
    rule: str,
    *,
    of_values: bool,
) -> NDArray[Any]:
    """The moves (up, right, down, left) of a network on `[N, 4, 4]`, by so many views and a rule.

    `answers` returns its four numbers, for up, down, left and right, for boards `[M, 4, 4]`.
    """
    legal = np.stack(
        [(plain_game.slide(boards, move)[0] != boards).any(axis=(1, 2)) for move in range(4)], axis=1
    )
    total, votes = np.zeros((len(boards), 4)), np.zeros((len(boards), 4), int)
    turns = [view % 4 if views > 2 else 2 * view for view in range(views)]
    seen = [
        np.rot90(boards[:, :, ::-1] if view > 3 else boards, turns[view], (1, 2)) for view in range(views)
    ]
    for view, answer in enumerate(np.split(answers(np.concatenate(seen)).astype(np.float64), views)):
        back = [_seen_as(move, turns[view], mirrored=view > 3) for move in range(4)]
        numbers = np.where(legal, answer[:, back], -np.inf)
        votes[np.arange(len(boards)), numbers.argmax(axis=1)] += 1
        if not of_values:
            odds = np.exp(numbers - numbers.max(axis=1, keepdims=True))
            numbers = odds / odds.sum(axis=1, keepdims=True)
        total += numbers
    if rule == "vote":
        total = np.where(votes == votes.max(axis=1, keepdims=True), total, -np.inf)
    ours = np.array([0, 2, 3, 1])  # of up, down, left and right
    moves: NDArray[Any] = ours[np.where(legal, total, -np.inf).argmax(axis=1)]
    return moves


def _seen_as(move: int, turns: int, *, mirrored: bool) -> int:
    """What a move (up, down, left, right) is called on a view, found by sliding a board."""
    board = np.zeros((1, 4, 4), np.int64)
    board[0, 1, 1:3], board[0, 2, 2] = (1, 2), 3

    def view(some: NDArray[Any]) -> NDArray[Any]:
        return np.rot90(some[:, :, ::-1] if mirrored else some, turns, (1, 2))

    result = view(plain_game.slide(board, move)[0])
    return next(other for other in range(4) if (plain_game.slide(view(board), other)[0] == result).all())


def measure(name: str, folder: Path, steps: int) -> tuple[object, ...]:
    """Train, publish and compare one network: its views, rule and share of equal moves."""
    place = re.sub(r"\W+", "_", name)
    weights = folder / f"{place}.pt"
    script = [sys.executable, str(_HERE / "foreign_networks.py"), name, "--out", str(weights)]
    subprocess.run([*script, "--steps", str(steps)], check=True)
    network = NETWORKS[name]
    module = network.make()
    module.load_state_dict(torch.load(weights, weights_only=True)["model_state_dict"])
    module.eval()
    (folder / f"net_{place}.py").write_text(
        f"from foreign_networks import NETWORKS\nmake = NETWORKS[{name!r}].make\n"
    )

    def answers(boards: NDArray[Any]) -> NDArray[Any]:
        with torch.no_grad():
            answer: NDArray[Any] = four(module(network.encode(torch.from_numpy(boards)))).numpy()
        return answer

    flags = ["--module", f"net_{place}:make", "--weights", str(weights), *network.flags.split()]
    return (name, *published(place, folder, flags, answers, of_values=network.scale is not None))


def of_a_library(kind: str, python: str, folder: Path) -> tuple[object, ...]:
    """The same for a network of Keras or Stable-Baselines3, with a `python` that has the library."""
    script = [python, str(_HERE / "foreign_libraries.py"), kind]
    boards, moves = plain_game.play(60_000)
    np.savez(folder / "lesson.npz", boards=boards, moves=moves)
    subprocess.run([*script, "train", str(folder)], check=True)
    if kind == "keras":
        export = "import keras; keras.saving.load_model('network.keras', compile=False).export('saved')"
        convert = ["-m", "tf2onnx.convert", "--saved-model", "saved", "--opset", "18", "--output", "net.onnx"]
        for command in (["-c", export], convert):
            subprocess.run([python, *command], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        flags = ["--onnx", "net.onnx", *POLICY.split()]
    else:
        flags = ["--sb3", "network.zip", "--actions", "up,down,left,right", "--layout", "flat"]

    def answers(asked: NDArray[Any]) -> NDArray[Any]:
        np.save(folder / "asked.npy", asked)
        subprocess.run([*script, "answer", str(folder)], check=True)
        answer: NDArray[Any] = np.load(folder / "answers.npy")
        return answer

    return ({"keras": "Keras", "sb3": "SB3"}[kind], *published(kind, folder, flags, answers, of_values=False))


def published(
    name: str,
    folder: Path,
    flags: Sequence[str],
    answers: Callable[[NDArray[Any]], NDArray[Any]],
    *,
    of_values: bool,
) -> tuple[object, ...]:
    """Publish a network with the defaults: its views, its rule and the share of equal moves."""
    command = [sys.executable, "-m", "octofold_export.cli", *flags, "--name", name]
    done = subprocess.run(
        [*command, "--models", str(folder / "models")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_HERE)},
    )
    if done.returncode:
        return "refused", "", ""
    version = Path(done.stdout.strip())
    card = json.loads((version / "card.json").read_text())
    boards, _ = plain_game.play(_BOARDS, seed=7)
    session = onnxruntime.InferenceSession(version / "model.onnx", providers=["CPUExecutionProvider"])
    (moves,) = session.run(["move"], {"boards": boards.reshape(-1, 16).astype(np.uint8)})
    own = own_moves(answers, boards, card["symmetries"], card["decision_rule"], of_values=of_values)
    return card["symmetries"], card["decision_rule"], f"{np.mean(moves == own):.2%}"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=NETWORKS, default=list(NETWORKS), help="these networks")
    parser.add_argument("--steps", type=int, default=2_000, help="training batches (default: %(default)s)")
    parser.add_argument(
        "--keras", metavar="PYTHON", help="with tensorflow and tf2onnx: a network of Keras, too"
    )
    parser.add_argument("--sb3", metavar="PYTHON", help="with stable-baselines3: one of its agents, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    libraries = {kind: vars(options)[kind] for kind in ("keras", "sb3") if vars(options)[kind]}
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(name, Path(folder), options.steps) for name in options.only]
        rows += [of_a_library(kind, python, Path(folder)) for kind, python in libraries.items()]
    report(
        "networks of others",
        ["network", "views", "rule", f"equal moves of {_BOARDS:,}"],
        rows,
        equal={row[0]: row[3] for row in rows},
    )


if __name__ == "__main__":
    main()
