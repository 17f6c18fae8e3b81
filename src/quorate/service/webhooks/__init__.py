"""Webhooks: notices posted to receivers, signed, at least once."""
