"""The system below the service: files, sockets, cores, signals, logs and TLS."""
