"""Redaction: replaces each reference to a resource of another tenant."""
