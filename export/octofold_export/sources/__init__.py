"""What can be exported, a file for each kind."""
