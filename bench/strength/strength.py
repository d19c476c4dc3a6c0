"""Measures in points what the choices of an export are worth: views, decision rule and precision.

    python bench/strength/strength.py models/cnn5/5 --checkpoint checkpoints/cnn5 --games 1000 --record
    python bench/strength/strength.py models/cnn5/5 --checkpoint checkpoints/cnn5 --row "1 view, int8"

Each row is an evaluation with its own server. The published version plays first, and all rows play the same
seed, so the differences to the published version are paired game by game. Graphs, replays and results stay in
results/strength, and the same command continues an interrupted run. A row whose precision fails the export's
check is left out. `--record` writes the figures into the version's card.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace
from octofold_client.evaluation.comparison import Comparison
from octofold_client.evaluation.contest import Contest
from octofold_client.evaluation.result_folder import Conditions
from octofold_client.evaluation.sides import Side
from octofold_export.export import export
from octofold_export.planning import ExportOptions
from octofold_export.publishing.card_files import change_card
from octofold_export.publishing.strength import record_strength
from octofold_export.sources.octofold_checkpoint import from_checkpoint
from octofold_game.contract.model import Alternative, Alternatives, Precision, Rule, read_card
from octofold_training import checkpoints

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import report


class Row(NamedTuple):
    """The choices of one row."""

    symmetries: int
    rule: Rule
    precision: Precision


ROWS = {
    "8 views, mean, int8": Row(8, "mean", "int8"),
    "8 views, vote, fp32": Row(8, "vote", "fp32"),
    "4 views, mean, int8": Row(4, "mean", "int8"),
    "2 views, mean, int8": Row(2, "mean", "int8"),
    "1 view, int8": Row(1, "vote", "int8"),
    "1 view, fp32": Row(1, "vote", "fp32"),
}
TILES = (2048, 8192, 16384, 32768)


def main() -> None:
    """Run the benchmark."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also ends the evaluation at work
    folder: Path = options.version.resolve()
    name, version = folder.parent.name, int(folder.name)
    out = options.out / f"{name}-{version}"
    if read_card(folder).checkpoint_sha256 != checkpoints.load(options.checkpoint).sha256:
        raise SystemExit(f"{folder}: made from another checkpoint than {options.checkpoint}")
    results = _evaluate(folder, out, options)
    own = _side("own", results["as published"])
    compared = {title: Contest.of([own, _side(title, played)]).pairs[0] for title, played in results.items()}
    if options.record:
        _record(folder, results, compared, out)
    report(
        f"{name} {version}, seed {options.seed}",
        ["row", "games", "average", "95% interval", "difference", "paired", *map(str, TILES), "moves/s"],
        [_table_row(title, played, compared[title]) for title, played in results.items()],
        results={title: played["statistics"] for title, played in results.items()},
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("version", type=Path, help="folder of the published version")
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of its checkpoint")
    parser.add_argument("--games", type=int, default=1000, help="games per row (default: %(default)s)")
    parser.add_argument(
        "--fp32-games", type=int, help="games per fp32 row of several views, which is slow (default: --games)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the games (default: %(default)s)")
    parser.add_argument(
        "--row", choices=ROWS, action="append", help="row to measure; may be repeated (default: all rows)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results") / "strength",
        help="folder for graphs and results (default: %(default)s)",
    )
    parser.add_argument("--record", action="store_true", help="write the figures into the version's card")
    return parser.parse_args()


def _evaluate(folder: Path, out: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The result of each row that can play, with the published version first; exports graphs where needed."""
    models, name, version = folder.parent.parent, folder.parent.name, int(folder.name)
    results = {"as published": _play(models, name, version, "int8", options.games, options.seed, out / "own")}
    for title in options.row or ROWS:
        row = ROWS[title]
        alternative = f"{row.rule}-{row.symmetries}"
        if not (out / "models" / alternative).exists():
            choices = ExportOptions(
                name=alternative, models=out / "models", rule=row.rule, symmetries=row.symmetries
            )
            export(
                partial(from_checkpoint, options.checkpoint),
                choices,
                lambda line: print(line, file=sys.stderr),
            )
        refused = read_card(out / "models" / alternative / "1").not_published
        if row.precision in refused:
            print(f"{title}: left out ({refused[row.precision]})", file=sys.stderr)
            continue
        is_slow = row.precision == "fp32" and row.symmetries > 1
        games = options.fp32_games if is_slow and options.fp32_games else options.games
        played = out / f"{alternative}-{row.precision}"
        results[title] = _play(out / "models", alternative, 1, row.precision, games, options.seed, played)
    return results


def _table_row(title: str, played: dict[str, Any], compared: Comparison) -> tuple[str, ...]:
    statistics = played["statistics"]
    shares = {reached["tile"]: reached["share"] for reached in statistics["reached"]}
    rate = played["run"]["moves_per_second"]
    is_own = title == "as published"
    return (
        title,
        str(played["games"]),
        f"{statistics['average']:,.0f}",
        _range(statistics["average_interval"], ","),
        "" if is_own else f"{compared.difference:+,.0f}",
        "" if is_own else _range(compared.interval, "+,"),
        *(f"{shares.get(tile, 0):.1%}" for tile in TILES),
        f"{rate:,.0f}" if rate else "",
    )


def _record(
    folder: Path,
    results: dict[str, dict[str, Any]],
    compared: dict[str, Comparison],
    out: Path,
) -> None:
    rows = tuple(
        Alternative(
            symmetries=row.symmetries,
            decision_rule=row.rule,
            precision=row.precision,
            games=results[title]["games"],
            average=results[title]["statistics"]["average"],
            average_interval=results[title]["statistics"]["average_interval"],
            difference=compared[title].difference,
            difference_interval=compared[title].interval,
        )
        for title, row in ROWS.items()
        if title in results
    )
    alternatives = Alternatives(rows=rows, command=f"python {shlex.join(sys.argv)}")
    record_strength(folder.parent.parent, folder.parent.name, int(folder.name), out / "own" / "result.json")
    change_card(folder, lambda card: replace(card, alternatives=alternatives))


def _play(
    models: Path, name: str, version: int, precision: str, games: int, seed: int, folder: Path
) -> dict[str, Any]:
    with suppress(FileNotFoundError):  # a finished evaluation must not run again: it would measure no pace
        played: dict[str, Any] = json.loads((folder / "result.json").read_text())
        if (played["games"], played["seed"]) == (games, seed):
            return played
    command = [str(Path(sys.executable).with_name("octofold")), "play", "--models", str(models)]
    command += ["--model", name, "--version", str(version), "--games", str(games), "--seed", str(seed)]
    environment = {**os.environ, "OCTOFOLD_PRECISION": precision}
    subprocess.run([*command, "--out", str(folder)], env=environment, stdout=subprocess.DEVNULL, check=True)
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def _side(title: str, result: dict[str, Any]) -> Side:
    conditions = Conditions(title, result["version"], result["precision"], result["sha256"], result["seed"])
    scores = {game["game"]: game["score"] for game in result["scores"]}
    return Side(title, conditions, Path(), scores, conditions.completeness(list(scores)))


def _range(interval: tuple[float, float] | None, style: str) -> str:
    if interval is None:
        return ""
    low, high = interval
    return f"{low:{style}.0f} to {high:{style}.0f}"


if __name__ == "__main__":
    main()
