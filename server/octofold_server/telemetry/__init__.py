"""Metrics and traces of calls, for operators."""
