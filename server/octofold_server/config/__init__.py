"""The options with their defaults, and how flags, environment variables and a TOML file set them."""
