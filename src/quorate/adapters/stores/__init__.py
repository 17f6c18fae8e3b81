"""Stores on real files: the ledger in SQLite, its head, archive, outbox, lock and backup."""
