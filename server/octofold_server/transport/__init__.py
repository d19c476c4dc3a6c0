"""Connections, calls and streams, without the messages that they carry."""
