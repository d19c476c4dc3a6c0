"""The HTTP server: its connections and calls, its probes, and checks of requests from browsers."""
