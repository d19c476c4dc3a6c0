"""Calls to the service: connections, retries, shared calls and credentials."""
