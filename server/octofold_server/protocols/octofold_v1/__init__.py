"""The protocol `octofold.v1`."""
