"""Connections, calls and streams over gRPC, but not their messages."""
