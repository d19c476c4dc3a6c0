"""The model repository: what is there, what is loaded, and how it uses the machine."""
