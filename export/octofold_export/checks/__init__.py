"""The checks of a graph before it is published."""
