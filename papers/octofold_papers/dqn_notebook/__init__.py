"""The course project of Schwenke and Cadman: three Q-networks, deep Q-learning, and play in a window."""
