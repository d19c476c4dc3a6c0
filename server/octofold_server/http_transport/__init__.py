"""Connections and calls over HTTP, and what browsers may ask for."""
