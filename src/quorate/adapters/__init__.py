"""The ports on real things: files, SQLite, the system's clock."""
