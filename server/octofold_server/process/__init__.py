"""A serving process from start to end: what it is assembled from, how it lives, and several of them."""
