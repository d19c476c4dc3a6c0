"""N-tuple networks: tables, the player, its search, and the small form that ships."""
