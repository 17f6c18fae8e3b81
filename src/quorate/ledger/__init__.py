"""The ledger: events as bytes, blocks joined by hashes, signed checkpoints, and the fold.

This code is pure: it reads no clock, file or random number. Stores are adapters.
"""
