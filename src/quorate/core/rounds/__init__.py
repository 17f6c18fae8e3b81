"""Rounds of pools: how a round begins, and how its grants are paid for and placed.

Readers of the code best begin with ``begin_round.py``.
"""
