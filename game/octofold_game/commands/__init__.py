"""What all commands share: the parser of flags, completion, hints at what was meant or is missing."""
