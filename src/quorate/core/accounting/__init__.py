"""Accounting: usage by owner and user, charges, and the statement of a period."""
