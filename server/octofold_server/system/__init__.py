"""The operating system below the service: files, sockets, signals, logs and TLS."""
