"""Statements and usage: as text, as documents, as rows of a spreadsheet."""
