"""Forks a ledger at an instant, with a change, and continues it with the recorded arrivals.

``recorded_inputs`` finds the commands from outside in the ledger, ``recorded_work`` the duration of
each run's work, ``recorded_speeds`` the rates of runs in rounds, and ``recorded_claims`` the ends
of claims. ``fork`` plays these inputs in the production engine, and ``differences`` compares the
result with the history. Start reading at ``fork.py``.
"""
