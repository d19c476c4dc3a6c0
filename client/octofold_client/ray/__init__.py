"""Spreads evaluations over a Ray cluster. This room needs the extra `ray`."""
