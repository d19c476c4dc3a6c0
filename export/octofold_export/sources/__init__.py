"""The kinds of network that can be exported; each has a module."""
