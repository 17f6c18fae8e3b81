"""What-if: a ledger forked at an instant, changed, and continued with the recorded arrivals.

``recorded_inputs`` separates commands from outside from events that followed, ``recorded_work`` has
how long the work of each run takes, ``recorded_speeds`` its rates in rounds, and
``recorded_claims`` the ends of claims. ``fork`` plays all of it against the production engine, and
``differences`` compares the results. Start reading at ``fork.py``.
"""
