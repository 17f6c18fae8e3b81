"""Readers: processes beside the ledger that answer questions. Start at ``read_pool.py``."""
