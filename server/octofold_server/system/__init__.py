"""Access to the operating system: files, sockets, signals, logs and TLS."""
