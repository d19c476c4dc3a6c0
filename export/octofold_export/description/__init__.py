"""The description of a network's input and outputs, given by the user or found by trying the network."""
