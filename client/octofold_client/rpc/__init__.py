"""The service as method calls: connections, retries, shared calls, credentials."""
