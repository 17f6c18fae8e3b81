"""Reads and writes files of rates, jobs, clusters, problems and allocations."""
