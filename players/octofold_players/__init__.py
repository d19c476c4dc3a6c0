"""Local players choose moves in this process; some of them teach the networks that are served."""
