"""Publishes networks of many shapes with the defaults, and counts how often the moves are the network's own.

    python bench/graph/foreign.py
    python bench/graph/foreign.py --only dueling residual

`foreign_networks.py` trains them. The check shares no code with the export: it turns the boards, asks
the module in PyTorch, and slides the tiles by the game of examples/bring-your-own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from foreign_networks import NETWORKS, four, plain_game
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report

_HERE = Path(__file__).parent
_BOARDS = 2_000


def own_moves(
    name: str, module: torch.nn.Module, boards: NDArray[Any], views: int, rule: str
) -> NDArray[Any]:
    """The moves (up, right, down, left) of the module on `[N, 4, 4]`, by so many views and a rule."""
    network = NETWORKS[name]
    legal = np.stack(
        [(plain_game.slide(boards, move)[0] != boards).any(axis=(1, 2)) for move in range(4)], axis=1
    )
    total, votes = np.zeros((len(boards), 4)), np.zeros((len(boards), 4), int)
    for view in range(views):
        turns = view % 4 if views > 2 else 2 * view
        turned = boards[:, :, ::-1] if view > 3 else boards
        turned = np.rot90(turned, turns, (1, 2)).copy()
        with torch.no_grad():
            answer = four(module(network.encode(torch.from_numpy(turned)))).double().numpy()
        back = [_seen_as(move, turns, mirrored=view > 3) for move in range(4)]
        numbers = np.where(legal, answer[:, back], -np.inf)
        votes[np.arange(len(boards)), numbers.argmax(axis=1)] += 1
        if network.scale is None:
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
    place = name.replace(" ", "_")
    weights, models = folder / f"{place}.pt", folder / "models"
    script = [sys.executable, str(_HERE / "foreign_networks.py"), name, "--out", str(weights)]
    subprocess.run([*script, "--steps", str(steps)], check=True)
    network = NETWORKS[name]
    module = network.make()
    module.load_state_dict(torch.load(weights, weights_only=True)["model_state_dict"])
    (folder / f"net_{place}.py").write_text(
        f"from foreign_networks import NETWORKS\nmake = NETWORKS[{name!r}].make\n"
    )
    command = [sys.executable, "-m", "octofold_export.cli", "--module", f"net_{place}:make"]
    command += ["--weights", str(weights), "--name", place, "--models", str(models), *network.flags.split()]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_HERE)},
    )
    if done.returncode:
        return name, "refused", "", ""
    version = Path(done.stdout.strip())
    card = json.loads((version / "card.json").read_text())
    boards, _ = plain_game.play(_BOARDS, seed=7)
    session = onnxruntime.InferenceSession(version / "model.onnx", providers=["CPUExecutionProvider"])
    (moves,) = session.run(["move"], {"boards": boards.reshape(-1, 16).astype(np.uint8)})
    own = own_moves(name, module.eval(), boards, card["symmetries"], card["decision_rule"])
    return name, card["symmetries"], card["decision_rule"], f"{np.mean(moves == own):.2%}"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="these networks")
    parser.add_argument("--steps", type=int, default=2_000, help="training batches (default: %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(name, Path(folder), options.steps) for name in options.only]
    report(
        "networks of others",
        ["network", "views", "rule", f"equal moves of {_BOARDS:,}"],
        rows,
        equal={row[0]: row[3] for row in rows},
    )


if __name__ == "__main__":
    main()
