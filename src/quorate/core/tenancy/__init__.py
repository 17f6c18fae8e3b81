"""Owners: the order of the queue, thresholds of soft quotas, tenants and access tokens.

Start at ``queue_order.py``; the scores that order owners are in ``owner_scores.py``.
"""
