"""The fast forms of our own kinds of network, written node by node."""
