"""Fast graphs of the kinds of network that Octofold trains, built node by node."""
