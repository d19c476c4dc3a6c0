"""Players that look at random games or make random moves, and rollouts that a network guides."""
