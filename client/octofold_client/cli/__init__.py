"""The command `octofold`: `command_line.py` parses, every subcommand has a file of its own."""

from octofold_client.cli.command_line import main

__all__ = ["main"]
