"""Load tests: several processes measure throughput and latency of servers in closed and open loops."""
