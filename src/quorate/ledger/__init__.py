"""The ledger: events as bytes, blocks joined by hashes, signed checkpoints, and the fold.

The fold computes the state from the events. This code is pure: it reads no clock, no file and no
random number. The stores that keep the blocks are adapters.
"""
