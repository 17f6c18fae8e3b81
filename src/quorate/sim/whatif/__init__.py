"""What-if: a ledger forked at an instant, changed, and played on with what really arrived.

``recorded_inputs`` tells what came from outside from what followed, ``recorded_work`` how long the
work of each run takes, ``recorded_speeds`` how fast it is in rounds, and ``recorded_claims`` what
became of claims. ``fork`` plays all of it against the production engine, and ``differences`` says
what came out otherwise. Start reading at ``fork.py``.
"""
