"""`octofold report`: the figures of the replays themselves, the files that it leaves, what it refuses."""
