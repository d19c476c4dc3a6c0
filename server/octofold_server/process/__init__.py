"""The serving process: its parts, its phases, and several processes on one port."""
