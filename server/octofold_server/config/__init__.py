"""What can be set, by flags, environment variables or a TOML file, and its default."""
