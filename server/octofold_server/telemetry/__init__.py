"""What operators see of calls: metrics and traces."""
