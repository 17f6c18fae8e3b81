"""Executors: leases become processes of this machine, each run under its keeper."""
