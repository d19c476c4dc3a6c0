"""`octofold report`: rebuilds result, report and pictures of a result folder from its replays."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octofold_game.commands.options import File, argument, option
from octofold_game.commands.subcommands import Command
from octofold_game.commands.suggestions import missing
from rich.console import Console

from octofold_client.cli.html_report import HTML_FILE, HtmlFlag
from octofold_client.cli.judge_flags import LuckFlag, print_luck_progress
from octofold_client.cli.result_output import as_json
from octofold_client.cli.shared_flags import Files, JsonFlag, print_files
from octofold_client.errors import UsageError
from octofold_client.evaluation.report import markdown
from octofold_client.evaluation.report import report as markdown_report
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.result_folder import ResultFolder
from octofold_client.extras import require_extra
from octofold_client.studies.html.parts import MOST_RESULTS, read_parts
from octofold_client.terminal.markdown import print_markdown

OVERLAY_FILE = "report-of-several.html"


@dataclass(kw_only=True)
class Options(JsonFlag, HtmlFlag, LuckFlag):
    """Options of `octofold report`."""

    folders: list[Path] = argument(
        "FOLDER", f"result folder; with --html, up to {MOST_RESULTS} folders", words="+"
    )
    plots: bool = option(False, "save pictures beside the report (needs the extra `plots`)")
    out: File | None = option(
        None,
        f"write the report of --html to this file (default: {HTML_FILE} in the folder; for several "
        f"folders, {OVERLAY_FILE} in their common parent or, without one, in the working directory)",
    )


def common_parent(folders: Sequence[Path]) -> Path:
    """Return the common parent of the folders, or the current folder if their parents differ."""
    parents = {folder.resolve().parent for folder in folders}
    return Path(os.path.relpath(parents.pop())) if len(parents) == 1 else Path()


def report(options: Options) -> None:
    """Rebuild the files of a result folder and print its table. With --html, also write an HTML report.

    With several folders, only write their common HTML report.

    Raises:
        EvaluationError: a folder is not a result folder or has no finished games, or an extra is missing.
        ReplayError: a replay file is damaged.
    """
    _check(options)
    first = options.folders[0]
    several = len(options.folders) > 1
    options.check_html()
    if options.plots:
        with require_extra("plots"):
            import octofold_client.studies.pictures  # noqa: F401
    content: dict[str, Any] = {}
    files: Files = {}
    with ExitStack() as stack:
        values = options.values(stack)
        parts = read_parts(options.folders, None, values, print_luck_progress) if options.html else []
        if not several:
            folder = ResultFolder.of_evaluation(first)[0]
            if parts:
                evaluation = parts[0].evaluation
            else:
                evaluation = Evaluation.of_folder(folder).with_luck(folder, values, print_luck_progress)
            content, files = _rebuild(folder, evaluation, options)
        if options.html:
            from octofold_client.studies.html.page import write_report

            file = options.out or (
                common_parent(options.folders) / OVERLAY_FILE if several else first / HTML_FILE
            )
            write_report(file, parts)
            files["page"] = str(file)
    print_files(content, files, options.json)


def _check(options: Options) -> None:
    """Raise `UsageError` if flags contradict each other or --out is not usable."""
    several = len(options.folders) > 1
    if len(options.folders) > MOST_RESULTS:
        raise UsageError(f"a report shows at most {MOST_RESULTS} folders, got {len(options.folders)}")
    if several and options.plots:
        raise UsageError("--plots takes one folder; to show several folders in one report, use --html")
    if several and not options.html:
        raise UsageError("several folders require --html, which shows them in one report")
    if options.out is not None and not options.html:
        raise UsageError("--out names the file of the HTML report, so it requires --html")
    if options.out is not None and not options.out.parent.is_dir():
        raise UsageError(f"--out: {missing(options.out.parent)}")
    if options.out is not None and options.out.is_dir():
        raise UsageError(f"--out must be a file, got the folder {options.out}")
    if options.out is not None and options.out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out must end with .html, got {options.out}")
    for number, folder in enumerate(options.folders):
        if folder.resolve() in (other.resolve() for other in options.folders[:number]):
            raise UsageError(f"each folder must be given once, got {folder} twice")


def _rebuild(folder: ResultFolder, evaluation: Evaluation, options: Options) -> tuple[dict[str, Any], Files]:
    """Write the files of an evaluation and print its table; return its JSON form and its files."""
    drawn: list[str] = []
    if options.plots:
        from octofold_game.drawing.figures import save_all

        from octofold_client.studies.pictures import figures

        drawn = save_all(figures([(evaluation.conditions.player, evaluation)]), folder.path)
    evaluation.write(folder, markdown_report(evaluation, drawn))
    if not options.json:
        print_markdown(markdown(evaluation), Console())
        print()
    files: Files = {"result": str(folder.result), "report": str(folder.report)}
    files["pictures"] = [str(folder.path / name) for name in drawn]
    return as_json(folder, evaluation), files


COMMAND = Command(
    "report",
    "rebuild the result, report and pictures of a result folder",
    "Rebuilds result.json and report.md from the replays in a result folder, and prints the "
    "table. Also works for unfinished evaluations. With --html, also shows several results in one "
    "report.",
    Options,
    report,
    examples=(
        "results/play-flagship-v5-seed0",
        "results/mine --plots",
        "results/mine results/yours --html --out report.html",
    ),
)
