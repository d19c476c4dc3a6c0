"""What people see and press while the client works: progress, tables, the replay viewer, Ctrl-C."""
