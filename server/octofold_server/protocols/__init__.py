"""The protocols of the service: a package or a module for each."""
