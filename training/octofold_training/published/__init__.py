"""The published tables of supervised networks, rebuilt on the same moves."""
