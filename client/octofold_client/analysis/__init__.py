"""What finished games show: how they ended, what a judge thinks of their moves, and all pictures."""
