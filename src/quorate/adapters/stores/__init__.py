"""Stores of ledgers, in SQLite and etcd, with the head file, archive, outbox, lock and backup."""
