"""What operators see of calls: metrics, traces, and the load that answers report."""
