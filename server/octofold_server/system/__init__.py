"""The machine below the service: files, sockets, cores, signals, logs, TLS."""
