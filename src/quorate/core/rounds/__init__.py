"""Rounds of pools: how a round begins, and how its grants are paid for and placed.

Start at ``begin_round.py``.
"""
