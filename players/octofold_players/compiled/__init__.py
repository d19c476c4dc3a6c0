"""What compiled searches share: lines, last moves, threads, tables on disk."""
