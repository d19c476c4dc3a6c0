"""Shared by all commands: flags, completion, suggestions, and hints for missing packages."""
