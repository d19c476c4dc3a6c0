"""Measures what training on one device spends its time on: labels, games, and updates of networks.

    python bench/gpu/gpu_learning.py                               # the GPU, if torch can use it
    python bench/gpu/gpu_learning.py --device cpu --boards 64 --updates 2 --warm-up-moves 10

It runs from a bare checkout. The teacher labels `--boards` boards and plays as many games. The published
networks learn from its moves in batches of 1,000, the students from its labels in batches of `--boards`. What
comes first compiles and is not counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gpu import ROOT, use_this_checkout

_ROWS = ("CNN5", "symmetric-200")
_STUDENTS = ("flagship", "swift")


def main() -> int:
    """Run the benchmark; returns the exit code."""
    options = _parse()
    use_this_checkout()
    try:
        measure(options)
    except ModuleNotFoundError as error:
        how = "install the extra `training`, or put a folder with it into PYTHONPATH"
        print(f"bench/gpu/gpu_learning.py: {error.name} is missing; {how}", file=sys.stderr)
        return 1
    return 0


def measure(options: argparse.Namespace) -> None:
    """Measure, and print the table and the JSON line."""
    import torch
    from harness import report
    from octofold_players.ntuple.network import NTupleNetwork
    from octofold_training.games.environment import Environment
    from octofold_training.games.tensor_pool import spread
    from octofold_training.games.tensor_teacher import TensorTeacher
    from octofold_training.learners.device_distil import DeviceDistillation, DeviceDistilOptions
    from octofold_training.learners.device_imitation import DeviceImitation, DeviceImitationOptions
    from octofold_training.published.rows import ROWS
    from octofold_training.recipes import read_recipe

    device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    boards = options.boards

    network = NTupleNetwork.load(options.teacher)
    teacher = TensorTeacher(network, device)
    generator = torch.Generator(device).manual_seed(1)
    games = Environment(boards, 16, generator)
    for _ in spread(games, teacher, options.warm_up_moves):
        pass
    moves = teacher.action_values(games.boards).argmax(dim=1)
    works: list[tuple[str, int, Callable[[], object]]] = [
        (f"labels, {depth} deep", boards, partial(teacher.action_values, games.boards, depth))
        for depth in (1, 2)
    ]
    works.append(("a move in each game", boards, lambda: games.step(moves)))
    for name in _ROWS:
        row = DeviceImitation(DeviceImitationOptions(games=boards), ROWS[name].architecture, teacher)
        works.append((f"{name}: update, labels, moves", row.options.batch_size, partial(row.learn, 1)))
    distil = DeviceDistilOptions(batch_size=boards, depth=2, slices=1, float16=device.type == "cuda")
    for name in _STUDENTS:
        architecture = read_recipe(ROOT / "training" / "recipes" / f"{name}.toml").network()
        student = DeviceDistillation(distil, architecture, network, device)
        works.append((f"{name}: update, labels, moves", boards, partial(student.learn, 1)))

    def milliseconds(work: Callable[[], object]) -> float:
        work()  # compiles
        start = time.perf_counter()
        for _ in range(options.updates):
            work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / int(options.updates) * 1000

    rows = [(what, count, milliseconds(work)) for what, count, work in works]
    table = [(what, f"{count:,}", f"{each:.2f}", f"{count / each * 1000:,.0f}") for what, count, each in rows]
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    report(
        f"Training on one device: {name}",
        ["what", "positions", "ms", "positions/s"],
        table,
        device=name,
        updates=options.updates,
        milliseconds={what: each for what, _, each in rows},
        positions={what: count for what, count, _ in rows},
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    teacher = ROOT / "models" / "ntuple" / "2"
    parser.add_argument("--teacher", type=Path, default=teacher, help="n-tuple network (models/ntuple/2)")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="(default: cuda, if torch can use it)")
    parser.add_argument("--boards", type=int, default=16_384, help="boards at a time (default: 16384)")
    parser.add_argument("--updates", type=int, default=100, help="calls of each kind (default: 100)")
    parser.add_argument(
        "--warm-up-moves", type=int, default=2000, help="moves made before, at most (default: 2000)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
