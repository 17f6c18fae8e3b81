"""Accounting systems, by their own API clients."""
