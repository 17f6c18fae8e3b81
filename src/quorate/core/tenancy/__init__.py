"""Owners: the order of the queue, soft quotas' thresholds, tenants and access tokens.

Start at ``queue_order.py``; what orders owners is ``owner_scores.py``.
"""
