"""Allocation policies for GPUs of several flavors: docs/adr/0023."""
