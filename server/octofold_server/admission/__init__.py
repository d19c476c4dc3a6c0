"""What every call passes, whichever protocol it came by: limits, refusals, counts and traces."""
