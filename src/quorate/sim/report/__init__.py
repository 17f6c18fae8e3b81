"""Reports on histories: the outcome of a ledger or a simulation, in figures.

``outcome_of_ledger`` makes an ``Outcome`` of any ledger, live, exported or simulated; ``metrics``
are the figures of one outcome, ``compare`` those of several over the same seeds. Their rendering is
in ``views/reports``. Start reading at ``metrics.py``.
"""
