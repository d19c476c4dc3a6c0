"""Connections and calls over HTTP, and checks of browsers' requests."""
