"""HTML reports: one file that shows results and plays games."""
