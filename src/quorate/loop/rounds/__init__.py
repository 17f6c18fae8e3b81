"""Rounds in the loop: the policy is asked, runs are chosen, paid and seated.

Start at ``round_loop.py``.
"""
