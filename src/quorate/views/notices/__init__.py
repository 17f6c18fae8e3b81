"""Notices: messages to the owners that an event concerns, derived from the ledger."""
