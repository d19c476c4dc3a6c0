"""Connections, calls and streams, independent of the messages that they carry."""
