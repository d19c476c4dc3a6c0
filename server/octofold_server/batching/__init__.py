"""From calls to batches and back: rows in, futures out."""
