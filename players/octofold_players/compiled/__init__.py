"""Parts that compiled searches share: line tables, last moves, limits, threads, and tables on disk."""
