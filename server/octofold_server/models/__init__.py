"""The models: the repository, the loaded versions, and their use of the machine."""
