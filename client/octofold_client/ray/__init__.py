"""Spreads evaluations over a Ray cluster. These modules need the extra `ray`."""
