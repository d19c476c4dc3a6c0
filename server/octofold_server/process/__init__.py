"""The serving process: its assembly, its life, and several processes on one port."""
