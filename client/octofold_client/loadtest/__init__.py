"""Load tests: measures throughput and latency of servers in closed and open loops, from several processes."""
