"""Parts that compiled searches share: lines, last moves, threads and tables on disk."""
