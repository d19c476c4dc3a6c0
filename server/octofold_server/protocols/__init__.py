"""What the service understands: a package or a module for each protocol."""
