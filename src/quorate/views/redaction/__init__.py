"""Redaction: replaces the names of other tenants' resources, by reference."""
