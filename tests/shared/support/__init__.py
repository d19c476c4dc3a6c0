"""Functions and constants that tests of several files import."""
