"""Neural networks: architectures, layers, and encodings of boards."""
