"""Parts that all commands share: options, suggestions, and hints for missing packages."""
