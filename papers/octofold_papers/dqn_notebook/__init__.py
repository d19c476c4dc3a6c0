"""The course project of Schwenke and Cadman: three Q-networks, deep Q-learning, and a window to play in."""
