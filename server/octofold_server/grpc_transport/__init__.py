"""The gRPC transports: connections, calls and streams. `protocols` decode the messages."""
