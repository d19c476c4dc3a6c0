"""What a published version consists of, and how it is written, whole or not at all."""
