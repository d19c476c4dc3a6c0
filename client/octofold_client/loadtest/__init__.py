"""Measures throughput and latency of a server with closed and open loops from several processes."""
