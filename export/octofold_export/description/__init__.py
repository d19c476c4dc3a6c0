"""The description of a network: its input and its output, which the user describes."""
