"""Computes figures from the outcome of a ledger or a simulation.

``outcome_of_ledger`` makes an ``Outcome`` from any ledger, live, exported or simulated. ``metrics``
computes the figures of one outcome, and ``compare`` compares the figures of several outcomes over
the same seeds. ``views/reports`` renders them. Start reading at ``metrics.py``.
"""
