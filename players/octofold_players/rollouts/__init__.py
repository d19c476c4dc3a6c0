"""Players that look at random games or make random moves."""
