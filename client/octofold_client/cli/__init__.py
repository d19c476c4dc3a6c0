"""The command `octofold`: `command_line.py` parses the arguments; each subcommand has its own file."""

from octofold_client.cli.command_line import main

__all__ = ["main"]
