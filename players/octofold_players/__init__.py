"""Local players, which choose moves in this process. Some of them teach the networks that are served."""
