"""Redaction: names of other tenants' things are replaced, by reference."""
