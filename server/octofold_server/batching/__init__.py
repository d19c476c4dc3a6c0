"""Merges calls into batches, and divides the answers among the calls."""
