"""The page at `/`: a game to play, a model to ask, an evaluation to watch."""
