"""What a network reads and what it answers: the one thing that Octofold must be told about a stranger's."""
