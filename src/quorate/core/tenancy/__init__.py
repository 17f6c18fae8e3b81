"""Owners: the order of the queue, thresholds of soft quotas, tenants and access tokens.

Readers of the code best begin with ``queue_order.py``; ``owner_scores.py`` computes the scores by
which owners are ordered.
"""
