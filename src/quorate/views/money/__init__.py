"""Statements and usage: as text, as documents, as CSV rows."""
