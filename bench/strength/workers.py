"""Measures how much faster a student learns in two processes than in one.

    python bench/strength/workers.py --teacher models/ntuple/2
    python bench/strength/workers.py --recipes mine --batch-size 4096

For each recipe, three things run in turns: the trainer in one process, the trainer in two processes that
share every batch, and two trainers in one process each that share nothing. The last is what two cores can do
at most. Each process has one thread. A figure is the median over the reports of a run of some seconds,
without its first quarter.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import interleave, medians, report

RECIPES = Path(__file__).parents[2] / "training" / "recipes"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
TRAINER = ["-m", "octofold_training.cli", "student"]
SHARED = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *TRAINER]
ALONE, BOTH, APART = "one process", "two that share batches", "two that share nothing"


def main() -> None:
    """Run the benchmark."""
    options = _options()
    rows: list[list[str]] = []
    figures = {}
    for name in options.recipes:
        measures = {
            ALONE: partial(_positions_per_second, options, name, [TRAINER]),
            BOTH: partial(_positions_per_second, options, name, [SHARED]),
            APART: partial(_positions_per_second, options, name, [TRAINER, TRAINER]),
        }
        rates = medians(interleave(measures, options.rounds))
        share = rates[BOTH] / (2 * rates[ALONE])
        rows.append([name, *(f"{rates[each]:,.0f}" for each in measures), f"{share:.0%}"])
        figures[name] = {each: round(rate) for each, rate in rates.items()} | {"share": round(share, 3)}
    columns = ["positions/s", ALONE, BOTH, APART, "of twice one"]
    report(
        "students in several processes",
        columns,
        rows,
        rounds=options.rounds,
        batch_size=options.batch_size,
        **figures,
    )


def _positions_per_second(options: argparse.Namespace, name: str, trainers: list[list[str]]) -> float:
    """Of these trainers together, which learn at the same time."""
    with tempfile.TemporaryDirectory() as place:
        recipe = Path(place) / f"{name}.toml"
        recipe.write_text(_with_batch_size((RECIPES / recipe.name).read_text(), options.batch_size))
        folders = [Path(place) / str(number) for number in range(len(trainers))]
        running = [
            subprocess.Popen(
                [
                    *(sys.executable, *trainer, recipe, "--teacher", options.teacher, "--device", "cpu"),
                    *("--state", folder, "--checkpoint", folder / "checkpoint"),
                    *("--minutes", str(options.seconds / 60)),
                ],
                env=os.environ | ONE_THREAD,
                stdout=subprocess.DEVNULL,
            )
            for trainer, folder in zip(trainers, folders, strict=True)
        ]
        try:
            endings = [process.wait() for process in running]
        finally:  # after Ctrl-C
            for process in running:
                process.terminate()
                process.wait()
        if any(endings):
            raise SystemExit("a trainer failed; its error is above")
        return sum(_median_rate(folder / "history.jsonl") for folder in folders)


def _with_batch_size(recipe: str, size: int | None) -> str:
    if not size:
        return recipe
    others = re.sub(r"^batch_size = .*\n", "", recipe, flags=re.MULTILINE)
    return others.replace("[distil]\n", f"[distil]\nbatch_size = {size}\n")


def _median_rate(history: Path) -> float:
    rates: list[float] = [
        json.loads(line)["positions_per_second"] for line in history.read_text().splitlines()
    ]
    return statistics.median(rates[len(rates) // 4 :])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--teacher", type=Path, default=Path("models/ntuple/2"), help="an n-tuple network")
    parser.add_argument("--recipes", nargs="+", default=["mine"], help="of training/recipes, with [distil]")
    parser.add_argument("--batch-size", type=int, help="in place of the recipe's")
    parser.add_argument("--seconds", type=float, default=30.0, help="that a run learns for")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
