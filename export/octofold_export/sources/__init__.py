"""The kinds of files and networks that can be exported."""
