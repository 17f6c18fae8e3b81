"""Rounds in the loop: the policy is called, runs are chosen, paid and placed.

Start at ``round_loop.py``.
"""
