"""Reads files of rates, jobs, clusters and problems. Writes tables of rates, and allocations."""
