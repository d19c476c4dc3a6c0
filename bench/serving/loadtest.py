"""Compares `octofold loadtest` with Triton's perf_analyzer: the same load on the same server, in turns.

    python bench/serving/loadtest.py --perf-analyzer PATH/perf_analyzer

`perf_analyzer.py` describes where to get that program. Both programs call the server in a closed loop,
by the Open Inference Protocol over gRPC, and stop when three windows agree. The figures are medians of the
rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from octofold_client.loadtest.boards import played_boards
from octofold_client.loadtest.forms import Form
from octofold_client.loadtest.loads import Closed
from octofold_client.loadtest.result import latencies_ms
from octofold_client.loadtest.steps import Plan, Step, measure_step
from octofold_client.loadtest.workers import Task, Workers
from octofold_client.rpc.local_server import LocalServer
from perf_analyzer import input_data, measure

sys.path.append(str(Path(__file__).parents[1]))  # where the harness is

from harness import interleave, medians, report

LARGEST_EXPONENT = 15
WITHIN = 0.10
COLUMNS = {
    "average": "Avg latency",
    "p50": "p50 latency",
    "p90": "p90 latency",
    "p95": "p95 latency",
    "p99": "p99 latency",
}
"""The names of our latencies and the columns of perf_analyzer's table, in microseconds."""
Figures = dict[str, float]


def main() -> None:
    """Run the benchmark."""
    options = _options()
    with LocalServer(options.models, ("--default-model", options.model)) as server:
        rounds = _measure(server.target, options)
    found = {
        program: medians({name: [row[name] for row in rows] for name in rows[0]})
        for program, rows in rounds.items()
    }
    ratios = {name: found["loadtest"][name] / found["perf_analyzer"][name] for name in found["loadtest"]}
    report(
        f"loadtest and perf_analyzer on {options.model}: {options.callers} callers of {options.batch} boards",
        ["figure (latencies in ms)", "loadtest", "perf_analyzer", "ratio", ""],
        [
            (
                name,
                f"{found['loadtest'][name]:,.2f}",
                f"{found['perf_analyzer'][name]:,.2f}",
                f"{ratio:.3f}",
                "" if abs(ratio - 1) <= WITHIN else f"differs by more than {WITHIN:.0%}",
            )
            for name, ratio in ratios.items()
        ],
        batch=options.batch,
        callers=options.callers,
        rounds=options.rounds,
        measured=found,
        ratios=ratios,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--perf-analyzer", type=Path, required=True, help="path of the program")
    parser.add_argument(
        "--models", type=Path, default=Path("models"), help="model repository (default: %(default)s)"
    )
    parser.add_argument("--model", default="cnn5", help="model to call (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=16, help="boards in a call (default: %(default)s)")
    parser.add_argument("--callers", type=int, default=4, help="concurrent calls (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="length of one window (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (default: %(default)s)")
    return parser.parse_args()


def _measure(target: str, options: argparse.Namespace) -> dict[str, list[Figures]]:
    """The figures of both programs, round by round."""
    boards = played_boards(LARGEST_EXPONENT)
    task = Task(target, options.model, "", Form("oip", options.batch), boards)
    with tempfile.TemporaryDirectory() as name, Workers(task) as workers:
        folder = Path(name)
        (folder / "boards.json").write_text(json.dumps(input_data(boards[:256])))

        def ours() -> Figures:
            step = Step(Closed(options.callers))
            plan = Plan(0.5, options.seconds, 10)
            measure_step(step, workers.windows, plan)
            counts, found = step.counts, latencies_ms(step.counts)
            return {"boards/s": counts.boards / counts.seconds} | {
                name: found[name] or 0.0 for name in COLUMNS
            }

        def theirs() -> Figures:
            row = measure(
                *(options.perf_analyzer, options.model, options.batch, options.callers, options.seconds),
                ["-i", "grpc", "-u", target, "--input-data", str(folder / "boards.json")],
                folder / "out.csv",
            )
            latencies = {name: float(row[column]) / 1e3 for name, column in COLUMNS.items()}
            return {"boards/s": float(row["Inferences/Second"])} | latencies

        return interleave({"loadtest": ours, "perf_analyzer": theirs}, options.rounds)


if __name__ == "__main__":
    main()
