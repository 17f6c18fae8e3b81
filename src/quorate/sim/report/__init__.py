"""Reports on histories: what a ledger or a simulation came to, in figures.

``outcome_of_ledger`` makes an ``Outcome`` of any ledger, live, exported or simulated; ``metrics``
are the figures of one outcome, ``compare`` those of several over the same seeds. How they are shown
is in ``views/reports``. Start reading at ``metrics.py``.
"""
