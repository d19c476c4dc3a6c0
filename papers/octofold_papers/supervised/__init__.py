"""The Polish report of 2025 and the papers of Kondo: networks that learn from play logs, and their tables."""
