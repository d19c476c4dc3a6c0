"""Prints tables: drawn with rich on a terminal, as Markdown elsewhere."""

from rich import box
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from octofold_client.evaluation.luck import AdjustedAverage
from octofold_client.evaluation.result import Evaluation
from octofold_client.evaluation.summary import Summary
from octofold_client.evaluation.tables import HEADINGS, markdown, notes_of, rows_of

_WIDEST_NOTE = 100


def table(summary: Summary, title: str, adjusted: AdjustedAverage | None = None) -> Table:
    """The table for a terminal; shares carry a bar."""
    figures, tiles = rows_of(summary, adjusted=adjusted)
    # `Text` is not parsed as markup; the name of a model may contain brackets.
    bold = Text(title, style="bold")
    drawn = Table(title=bold, title_justify="left", box=box.ROUNDED, border_style="dim")
    drawn.add_column(HEADINGS[0])
    drawn.add_column(HEADINGS[1], justify="right", style="bold")
    drawn.add_column(HEADINGS[2], justify="right", style="cyan")
    drawn.add_column("", width=20, style="yellow")
    for row in figures:
        drawn.add_row(row.label, row.measured, row.interval, "")
    drawn.add_section()
    for row in tiles:
        style = "" if row.share else "dim"
        drawn.add_row(row.label, row.measured, row.interval, _bar(row.share or 0.0, 20), style=style)
    return drawn


def print_report(evaluation: Evaluation, console: Console) -> None:
    """Print the table and its notes: drawn on a terminal, as Markdown elsewhere."""
    if not console.is_terminal:
        # rich would wrap the lines.
        console.file.write(markdown(evaluation) + "\n")
        return
    if evaluation.summary is None:
        console.print(Text(evaluation.title, style="bold"))
    else:
        console.print(table(evaluation.summary, evaluation.title, evaluation.adjusted))
    for note in notes_of(evaluation):
        console.print(note, style="yellow", highlight=False, width=min(console.width, _WIDEST_NOTE))


def print_markdown(text: str, console: Console) -> None:
    """Print the text: tables and emphasis drawn on a terminal, unchanged elsewhere."""
    if console.is_terminal:
        console.print(Markdown(text, hyperlinks=False))
    else:
        # rich would wrap the lines.
        console.file.write(text + "\n")


def _bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + " ▏▎▍▌▋▊▉"[rest]
