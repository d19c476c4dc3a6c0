"""Marshall's turbozero: LazyZero's network, its rollouts, its training, and its player."""
