"""Executors of this machine: leases become processes, and each run has its own keeper."""
