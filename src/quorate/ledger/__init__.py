"""The ledger: events as bytes, blocks joined by hashes, signed checkpoints, and the fold.

Pure: nothing here reads a clock, a file or a random number. Stores are adapters.
"""
