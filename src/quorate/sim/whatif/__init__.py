"""Forks a ledger at an instant, applies a change, and plays the later recorded arrivals again.

The inputs come from the ledger. ``recorded_inputs`` finds the commands from outside, and
``recorded_work`` the duration of each run's work. ``recorded_speeds`` finds the rates of runs in
rounds, and ``recorded_claims`` the ends of claims. ``fork`` plays these inputs in the production
engine, and ``differences`` compares the result with the history. ``unpaid_gpus`` finds added GPUs
for which no envelope can pay. Start reading at ``fork.py``.
"""
