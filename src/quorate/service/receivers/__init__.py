"""Receivers of notices: webhooks, which get signed POSTs, and mail.

Each notice is delivered at least once.

``notice_sink`` reads the ledger and delivers through the outbox, for every kind of receiver. Start
reading at ``receiver_threads``.
"""
