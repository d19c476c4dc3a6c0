"""Shared by compiled searches: lines, last moves, threads, tables on disk."""
