"""The Polish report of 2025 and Kondo's papers: networks that learn from play logs, and their tables."""
