"""The models: their repository, the loaded versions, and the layout of each version on the machine."""
