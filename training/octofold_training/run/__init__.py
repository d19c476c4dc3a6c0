"""What every run does, whatever it learns: options, state, reports, curves, several processes."""
