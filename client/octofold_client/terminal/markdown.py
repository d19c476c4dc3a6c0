"""Prints Markdown: rendered with rich on a terminal, unchanged elsewhere."""

from rich.console import Console
from rich.markdown import Markdown


def print_markdown(text: str, console: Console) -> None:
    """Print Markdown: rendered with tables and emphasis on a terminal, unchanged elsewhere."""
    if console.is_terminal:
        console.print(Markdown(text, hyperlinks=False))
    else:
        # Not through rich, which would wrap the lines.
        console.file.write(text + "\n")
