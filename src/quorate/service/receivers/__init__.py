"""Receivers of notices: webhooks, which get signed POSTs, and mail; each at least once.

``notice_sink`` reads the ledger and delivers by the outbox, whatever the receiver is. Start reading
at ``receiver_threads``.
"""
