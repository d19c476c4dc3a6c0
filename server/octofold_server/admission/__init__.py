"""Admission of calls from all protocols: limits, refusals, counts and traces."""
