"""Rounds in the loop: the policy is called, and the runs of the next round are chosen.

Start at ``round_loop.py``.
"""
