"""Access to the machine: files and processors."""
