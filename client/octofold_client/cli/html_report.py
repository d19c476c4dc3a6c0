"""The flag `--html` of report, compare and analyse, and the file that it writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from octofold_game.commands.options import option

from octofold_client.contenders.judges import Judge
from octofold_client.evaluation.contest import Contest
from octofold_client.extras import require_extra
from octofold_client.studies.html.parts import read_parts

HTML_FILE = "report.html"


@dataclass(kw_only=True)
class HtmlFlag:
    """The flag `--html`."""

    html: bool = option(
        False,
        "write an HTML report: one file, readable offline, with pictures, tables, conditions and games to "
        "click through (needs the extra `plots`)",
    )

    def check_html(self) -> None:
        """Check whether the report of `--html` can be written, before work that takes minutes.

        Raises:
            EvaluationError: `--html` is given, but matplotlib is not installed.
        """
        if self.html:
            with require_extra("plots"):
                import octofold_client.studies.html.page  # noqa: F401


def write_html(
    file: Path, folders: Sequence[Path], contest: Contest | None = None, values: Judge | None = None
) -> str:
    """Write an HTML report of result folders and their comparison `contest`; return the path of the file.

    `values` is the value function that measures luck; with None, luck is not shown.
    """
    from octofold_client.studies.html.page import write_report

    write_report(file, read_parts(folders, contest, values), contest)
    return str(file)
