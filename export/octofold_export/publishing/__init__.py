"""Publishing: the files of a version, its card, and the model repository."""
