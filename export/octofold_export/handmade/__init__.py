"""The fast forms of our own kinds of network, built node by node."""
