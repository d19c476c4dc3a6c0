"""Spreads evaluations over a Ray cluster. Needs the extra `ray`."""
