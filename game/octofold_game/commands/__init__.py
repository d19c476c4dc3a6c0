"""Shared by all commands: flags, suggestions, and hints for missing packages."""
