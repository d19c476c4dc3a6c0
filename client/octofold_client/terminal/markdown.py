"""Prints tables: drawn with rich on a terminal, as Markdown elsewhere."""

from rich.console import Console
from rich.markdown import Markdown


def print_markdown(text: str, console: Console) -> None:
    """Print Markdown: a terminal shows drawn tables and emphasis; elsewhere, the text is unchanged."""
    if console.is_terminal:
        console.print(Markdown(text, hyperlinks=False))
    else:
        # rich would wrap the lines.
        console.file.write(text + "\n")
