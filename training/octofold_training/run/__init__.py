"""Shared by all training runs: options, state, reports, curves, several processes."""
