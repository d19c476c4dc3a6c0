"""What the choices of an export are worth in points: views, decision rule, precision; a row is an evaluation.

    python bench/strength.py --checkpoint checkpoints/cnn5 --games 1000
    python bench/strength.py --checkpoint checkpoints/cnn5 --games 1000 --row "1 view, int8"

Every row plays the same seed through a service of its own, so differences are paired, game by game, with the
first row. Graphs, replays and results stay in results/strength/NAME: the same command goes on where it
stopped, and a checkpoint that has changed needs another `--out`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import report
from numpy.typing import NDArray
from octofold_client.intervals import average_interval
from octofold_export.export import ExportOptions, export
from octofold_export.pieces import Rule
from octofold_export.sources import from_checkpoint


class Row(NamedTuple):
    symmetries: int
    rule: Rule
    precision: str


ROWS = {
    "8 views, vote, int8": Row(8, "vote", "int8"),
    "8 views, mean, int8": Row(8, "mean", "int8"),
    "8 views, vote, fp32": Row(8, "vote", "fp32"),
    "1 view, int8": Row(1, "vote", "int8"),
}
TILES = (2048, 8192, 32768)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--games", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--row", choices=ROWS, action="append", help="only this one, besides the first")
    parser.add_argument("--out", type=Path, help="default: results/strength/NAME of the checkpoint")
    options = parser.parse_args()
    out = options.out or Path("results") / "strength" / options.checkpoint.name

    first = next(iter(ROWS))
    chosen = list(ROWS) if options.row is None else [first, *(row for row in options.row if row != first)]
    results = {
        name: _play(options.checkpoint, ROWS[name], out, options.games, options.seed) for name in chosen
    }
    scores = {
        name: np.array([game["score"] for game in result["scores"]], float)
        for name, result in results.items()
    }
    rows = []
    for name, result in results.items():
        statistics = result["statistics"]
        low, high = average_interval((scores[name] - scores[first]).tolist()) or (0.0, 0.0)
        shares = {reached["tile"]: reached["share"] for reached in statistics["reached"]}
        rows.append(
            (
                name,
                f"{statistics['average']:,.0f}",
                _range(statistics["average_interval"]),
                "" if name == first else f"{low:+,.0f} to {high:+,.0f}",
                *(f"{shares[tile]:.1%}" for tile in TILES),
                f"{result['run']['moves_per_second']:,.0f}" if result["run"]["moves_per_second"] else "",
            )
        )
    report(
        f"{options.checkpoint.name}, {options.games} games of seed {options.seed}",
        ["row", "average", "95% interval", "difference, paired", *map(str, TILES), "moves/s"],
        rows,
        results={name: result["statistics"] for name, result in results.items()},
    )


def _play(checkpoint: Path, row: Row, out: Path, games: int, seed: int) -> dict[str, Any]:
    model = f"{row.rule}-{row.symmetries}"
    if not (out / "models" / model).exists():
        choices = ExportOptions(name=model, models=out / "models", rule=row.rule, symmetries=row.symmetries)
        export(partial(from_checkpoint, checkpoint), choices, lambda line: print(line, file=sys.stderr))
    folder = out / f"{model}-{row.precision}"
    command = [str(Path(sys.executable).with_name("octofold")), "play", "--models", str(out / "models")]
    command += ["--model", model, "--games", str(games), "--seed", str(seed), "--out", str(folder)]
    environment = {**os.environ, "OCTOFOLD_PRECISION": row.precision}
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def _scores(result: dict[str, Any]) -> NDArray[np.float64]:
    return np.array(
        [game["score"] for game in sorted(result["scores"], key=lambda game: game["game"])], float
    )


def _range(interval: list[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:,.0f} to {interval[1]:,.0f}"


if __name__ == "__main__":
    main()
