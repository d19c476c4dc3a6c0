"""What a graph must pass before anyone may load it."""
