"""Readers: processes beside the ledger thread that answer reads. Start at ``read_pool.py``."""
