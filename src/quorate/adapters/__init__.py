"""Implementations of the ports: files, SQLite, etcd, Kubernetes, the system's clock."""
