"""Marshall's turbozero: LazyZero's network, rollouts, training and player."""
