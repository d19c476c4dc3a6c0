"""Admission of calls from all protocols: limits, rights and refusals."""
