"""Reads files of rates, jobs, clusters and problems; writes tables of rates, and allocations."""
