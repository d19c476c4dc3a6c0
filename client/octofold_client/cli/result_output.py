"""Prints the result of an evaluation: its table, its pace and its files, or one JSON object."""

from typing import Any

from rich.console import Console

from octofold_client.cli.shared_flags import JsonFlag, print_json
from octofold_client.evaluation.report import markdown
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.terminal.markdown import print_markdown


def print_result(
    folder: ResultFolder, evaluation: Evaluation, options: JsonFlag, *, pace: bool = True
) -> None:
    """Print one evaluation: as JSON with `--json`, otherwise as a table."""
    if options.json:
        print_json({"evaluations": [as_json(folder, evaluation)]})
    else:
        print_table(folder, evaluation, pace=pace)


def print_table(folder: ResultFolder, evaluation: Evaluation, *, pace: bool = True) -> None:
    """Print the table of an evaluation, its pace if `pace`, and the paths of its files."""
    print_markdown(markdown(evaluation), Console())
    print()
    if pace:
        print(_pace(evaluation))
    print(f"replays: {folder.replays}")
    print(f"result:  {folder.result}")
    print(f"report:  {folder.report}")


def as_json(folder: ResultFolder, evaluation: Evaluation) -> dict[str, Any]:
    """Return the paths of the files, and the fields of `result.json` except schema, scores and card."""
    content = evaluation.to_json()
    for long in ("schema", "scores", "card"):
        del content[long]
    files = {"replays": folder.replays, "result": folder.result, "report": folder.report}
    return content | {"files": {kind: str(file) for kind, file in files.items()}}


def _pace(evaluation: Evaluation) -> str:
    run = evaluation.run
    if run is None or run.moves_per_second is None:
        return "An earlier run played all games."
    pace = f"{run.moves_per_second:,.0f} moves/s over {run.seconds:,.1f} s"
    inference = run.inference_us / run.requests / 1000
    queue = run.queue_us / run.requests / 1000
    times = f"{queue:.1f} ms in the queue and {inference:.1f} ms in the model"
    return f"pace:    {pace}; on average, a call spent {times}"
