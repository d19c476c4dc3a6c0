"""The page: a web application to play, to ask models for moves, and to watch results."""
