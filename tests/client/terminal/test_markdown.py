"""Markdown is drawn on a terminal and printed as it is elsewhere."""

import io

from octofold_client.terminal.tables import print_markdown
from rich.console import Console

TEXT = "| player | score |\n|---|---:|\n| random_player version 1 | 1,024 |\n\nIt is **decided**."


def printed(*, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=60, color_system=None)
    print_markdown(TEXT, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_shows_a_table_and_a_file_gets_markdown() -> None:
    shown = printed(terminal=True)
    assert "|" not in shown
    assert "**" not in shown
    assert "random_player version 1" in shown
    assert printed(terminal=False) == f"{TEXT}\n"
